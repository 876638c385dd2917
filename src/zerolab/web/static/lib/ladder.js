// Ladder of opponents from weak to strong, shared by lessons and games.

import { defaultAgent } from "./choosers.js";

const LEVELS = 7;
const PLAYOUTS = [5, 20, 100, 500, 1500, 3000]; // of MCTS, if there is no network for the game
const WEAK_PLAYOUTS = 20; // of MCTS, at the level below a network that comes without a run
const FEWEST_SIMULATIONS = 25; // of a run's networks, from early iterations to the best
const DEFAULT_SIMULATIONS = 100; // of a spec without the option
const MORE_SIMULATIONS = [100, 400, 800, 1600, 3200]; // of the best network

/**
 * Specs of seven opponents from weak to strong; the number is fixed, so that a level keeps its meaning.
 * Random moves are followed by the default network with more and more training and simulations or, if
 * there is no network, by MCTS with more and more playouts.
 */
export function ladderOf(agents) {
  const best = agents.find((each) => each.spec === defaultAgent(agents));
  if (best.iteration == null) return ["random", ...PLAYOUTS.map((count) => `mcts:${count}`)];
  const strong = MORE_SIMULATIONS.map((count) => `${best.spec}?simulations=${count}`);
  return ["random", ...weakerThan(best, agents), ...strong].slice(0, LEVELS);
}

/** Specs below the best network: earlier networks of its run or, without a run, weak MCTS and fewer simulations. */
function weakerThan(best, agents) {
  if (!best.run) return [`mcts:${WEAK_PLAYOUTS}`, `${best.spec}?simulations=${FEWEST_SIMULATIONS}`];
  const trained = agents
    .filter((each) => each.run === best.run && each.spec !== best.spec && each.iteration <= best.iteration)
    .sort((a, b) => a.iteration - b.iteration);
  const steps = new Set([0, 1, 2, 3].map((part) => trained[Math.floor((part * (trained.length - 1)) / 3)].spec));
  return [...steps].map((spec) => `${spec}?simulations=${FEWEST_SIMULATIONS}`);
}

/**
 * Spec of the first opponent on the ladder above `spec`, or null if there is none. An opponent is
 * higher if it has no less training and no fewer simulations, and more of at least one of the two.
 * Agents that are not networks of the ladder's run are treated like its best network. `thinking`, such
 * as simulations:400, overrides the simulations of `spec`; time limits cannot be compared.
 */
export function strongerThan(spec, agents, thinking = "") {
  const [kind, amount] = thinking.split(":");
  const levels = ladderOf(agents).slice(1); // above random moves
  if (spec === "random") return levels[0];
  if (spec === "perfect" || kind === "seconds") return null;
  const best = agents.find((each) => each.spec === defaultAgent(agents));
  const most = best.iteration ?? 0;
  const trainingOf = (each) => {
    const network = agents.find((other) => best.run && other.run === best.run && other.spec === each.split("?")[0]);
    return Math.min(most, network?.iteration ?? most);
  };
  const [training, simulations] = [trainingOf(spec), kind ? Number(amount) : simulationsOf(spec)];
  const isAbove = (each) => {
    const gains = [trainingOf(each) - training, simulationsOf(each) - simulations];
    return Math.min(...gains) >= 0 && Math.max(...gains) > 0;
  };
  return levels.find(isAbove) ?? null;
}

/** Number of simulations of a spec such as mcts:100 or runs/demo?simulations=400. */
const simulationsOf = (spec) => Number(/(?:simulations=|:)(\d+)/.exec(spec)?.[1] ?? DEFAULT_SIMULATIONS);
