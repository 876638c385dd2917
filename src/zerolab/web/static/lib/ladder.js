// Ladder of opponents from weak to strong, shared by lessons and games.

import { defaultAgent } from "./choosers.js";

const LEVELS = 7;
const PLAYOUTS = [5, 20, 100, 500, 1500, 3000]; // of MCTS, if the game has no run
const FEWEST_SIMULATIONS = 25; // of a run's networks, from early iterations to the best
const MORE_SIMULATIONS = [100, 400, 800, 1600, 3200]; // of the best network

/**
 * Specs of seven opponents from weak to strong. Their number is always the same, so that a level
 * keeps its meaning: random moves, then the default run with ever more training and simulations.
 */
export function ladderOf(agents) {
  const best = agents.find((each) => each.spec === defaultAgent(agents));
  if (!best.run) return ["random", ...PLAYOUTS.map((count) => `mcts:${count}`)];
  const trained = agents
    .filter((each) => each.run === best.run && each.spec !== best.spec && each.iteration <= best.iteration)
    .sort((a, b) => a.iteration - b.iteration);
  const steps = new Set([0, 1, 2, 3].map((part) => trained[Math.floor((part * (trained.length - 1)) / 3)].spec));
  const weak = [...steps].map((spec) => `${spec}?simulations=${FEWEST_SIMULATIONS}`);
  const strong = MORE_SIMULATIONS.map((count) => `${best.spec}?simulations=${count}`);
  return ["random", ...weak, ...strong].slice(0, LEVELS);
}

/**
 * Spec of the next opponent on the ladder after `spec`, or null after the last. An opponent that is
 * not on the ladder is followed by the first one with the same network and more simulations, or by
 * the first one with the best network.
 */
export function strongerThan(spec, agents) {
  const ladder = ladderOf(agents);
  const level = ladder.indexOf(spec);
  if (level >= 0) return ladder[level + 1] ?? null;
  if (spec === "perfect") return null;
  const networkOf = (each) => each.split(/[?:]/)[0];
  const simulations = simulationsOf(spec);
  const same = ladder.filter((each) => networkOf(each) === networkOf(spec));
  if (same.length) return same.find((each) => simulationsOf(each) > simulations) ?? null;
  return ladder.find((each) => simulationsOf(each) > FEWEST_SIMULATIONS) ?? null;
}

/** Number of simulations in a spec such as mcts:100 or runs/demo?simulations=400, or 0. */
const simulationsOf = (spec) => Number(/(?:simulations=|:)(\d+)/.exec(spec)?.[1] ?? 0);
