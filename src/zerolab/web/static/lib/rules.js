// Short rules for the games, for beginners.

const RULES = {
  connect_four: (length) =>
    `Choose a column, and your piece falls to its lowest empty cell. The first player to get ${length} in a row horizontally, vertically or diagonally wins. If the board fills up, the game is a draw.`,
  gobang: (length) =>
    `Place a piece on any empty cell. The first player to get ${length} in a row horizontally, vertically or diagonally wins. If the board fills up, the game is a draw.`,
  othello: () =>
    "Place a disc so that it encloses a straight line of your opponent's discs between itself and another of your discs. The enclosed discs become yours. If you have no such move, you must pass. When neither player can move, the player with more discs wins.",
};

/** Rules for the game with the given name. */
export function rulesOf(game) {
  const [name, , length = 4] = game.split(":");
  return RULES[name]?.(length) ?? "This game is provided by a plug-in. See its documentation for the rules.";
}
