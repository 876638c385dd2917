// The rules of the games in a few sentences, for people who have never played them.

const RULES = {
  connect_four: (length) =>
    `Choose a column; your piece falls to its lowest empty cell. Who has ${length} in a row first wins: across, down or along a diagonal. A full board is a draw.`,
  gobang: (length) =>
    `Put a piece on any empty cell. Who has ${length} in a row first wins: across, down or along a diagonal. A full board is a draw.`,
  othello: () =>
    "Put a disc where it encloses discs of the other player in a straight line, between itself and another of yours: they become yours. Who cannot do so has to pass. When nobody can, who has more discs wins.",
};

/** The rules of a game by its name. */
export function rulesOf(game) {
  const [name, , length = 4] = game.split(":");
  return RULES[name]?.(length) ?? "This game comes from another package: see there for its rules.";
}
