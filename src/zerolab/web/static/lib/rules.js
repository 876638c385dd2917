// The rules of the games in a few sentences, for beginners.

const RULES = {
  connect_four: (length) =>
    `Choose a column; your piece falls to its lowest empty cell. The first to get ${length} in a row wins: across, down or along a diagonal. A full board is a draw.`,
  gobang: (length) =>
    `Put a piece on any empty cell. The first to get ${length} in a row wins: across, down or along a diagonal. A full board is a draw.`,
  othello: () =>
    "Put a disc so that it encloses a straight line of your opponent's discs between itself and another disc of yours: the enclosed discs become yours. If you cannot, you have to pass. When neither player can move, the one with more discs wins.",
};

/** The rules of a game by its name. */
export function rulesOf(game) {
  const [name, , length = 4] = game.split(":");
  return RULES[name]?.(length) ?? "This game comes from another package; see its documentation for the rules.";
}
