// Controls for selecting games and agents, shared by all pages.

import { get, post } from "./api.js";
import { el } from "./dom.js";

const FALLBACK = ["random", "mcts:100", "mcts:1000", "rave:100", "rhea:100", "perfect"];

/** Control for a game and its size. `onChange(name)` receives names such as othello:6x6. */
export class GameChooser {
  constructor(host, onChange) {
    this.host = host;
    this.onChange = onChange;
  }

  /** Load the server's games and select one. */
  async load(selected) {
    this.games = await get("/games");
    this.select(selected);
  }

  /** Select one of the loaded games. */
  select(selected) {
    const [name] = (selected ?? "").split(":");
    const isListed = this.games.some((each) => each.name === name);
    this.#build(isListed ? selected : this.games.find((each) => each.name === "connect_four")?.example);
  }

  #build(selected) {
    const [name, size, ...others] = selected.split(":");
    const game = this.games.find((each) => each.name === name);
    const values = size ? [...size.split("x"), ...others].map(Number) : []; // by default the game's
    this.name = el(
      "select",
      { onchange: () => this.#pick() },
      this.games.map((each) => el("option", { value: each.name, selected: each.name === name }, title(each.name))),
    );
    this.fields = Object.entries(game.sizes).map(([field, [low, high]], number) => {
      const value = values[number] ?? game.defaults[field];
      const input = el("input", { type: "number", min: low, max: high, value, onchange: () => this.#changed() });
      input.classList.add("small");
      return [field, input];
    });
    this.host.replaceChildren(
      el("label", {}, el("span", {}, "Game"), this.name),
      ...this.fields.map(([field, input]) => el("label", {}, el("span", {}, title(field)), input)),
    );
  }

  #pick() {
    this.#build(this.games.find((each) => each.name === this.name.value).example);
    this.#changed();
    this.name.focus();
  }

  #changed() {
    this.onChange(this.value);
  }

  /** Name of the selected game, without optional fields if all have their defaults. */
  get value() {
    const game = this.games.find((each) => each.name === this.name.value);
    const [rows, columns, ...others] = this.fields.map(([, input]) => input.value);
    const defaults = this.fields.slice(2).map(([field]) => String(game.defaults[field]));
    const tail = others.join() === defaults.join() ? "" : others.map((each) => `:${each}`).join("");
    return `${game.name}:${rows}x${columns}${tail}`;
  }
}

export const title = (name) => (name.charAt(0).toUpperCase() + name.slice(1)).replaceAll("_", " ");

/** Agents suggested by the server for a game, or a fixed list if the request fails. */
export async function agentsOf(game) {
  try {
    return await get("/agents", { game });
  } catch {
    return FALLBACK.map((spec) => ({ spec, name: spec, label: spec, group: "built in", is_default: spec === "mcts:1000" }));
  }
}

/** Function like `agentsOf` that returns null if it has been called again in the meantime. */
export function latestAgents() {
  let calls = 0;
  return async (game) => {
    const number = (calls += 1);
    const agents = await agentsOf(game);
    return number === calls ? agents : null;
  };
}

/** Spec of the agent that pages select by default: the latest usable run, a packaged agent, or MCTS. */
export const defaultAgent = (agents) => agents.find((each) => each.is_default).spec;

/** Spec of the first agent that is not among `shown` specs, not even as its run's best network. */
export function otherAgent(agents, shown) {
  const networkOf = ({ spec, run, iteration }) => (run ? `${run}@${iteration}` : spec);
  const networks = agents.filter((each) => shown.includes(each.spec)).map(networkOf);
  return (agents.find((each) => !networks.includes(networkOf(each))) ?? agents[0]).spec;
}

/** Readable name of an agent, such as "demo, iteration 8", followed by the options of its spec. */
export function agentName(spec, agents) {
  const [head, ...options] = spec.split("?");
  const known = agents.find((each) => each.spec === spec) ?? agents.find((each) => each.spec === head);
  if (!known) return spec;
  return known.spec === spec ? known.name : `${known.name}, ${options.join("?").replaceAll("&", ", ")}`;
}

/** Menu of agents with a text field for any other spec. */
export class AgentChooser {
  constructor(host, label, { withPerson = false, onChange = () => {} } = {}) {
    this.host = host;
    this.label = label;
    this.withPerson = withPerson;
    this.onChange = onChange;
  }

  /** Show agents and select one by its spec; by default, select the default agent. */
  show(agents, selected = defaultAgent(agents)) {
    const groups = Map.groupBy(agents, (each) => each.group);
    const isListed = selected === "person" || agents.some((each) => each.spec === selected);
    this.menu = el(
      "select",
      { onchange: () => this.#pick() },
      this.withPerson ? el("option", { value: "person" }, "A person") : null,
      [...groups].map(([group, members]) =>
        el("optgroup", { label: group }, members.map((each) => el("option", { value: each.spec }, each.label))),
      ),
      el("option", { value: "" }, "Other…"),
    );
    const typed = isListed || !selected ? "" : selected;
    this.text = el("input", {
      type: "text", value: typed, placeholder: "runs/demo@12?simulations=400", "aria-label": `${this.label}, by name`,
      spellcheck: "false", autocapitalize: "off", onchange: () => this.onChange(this.value),
    });
    this.menu.value = isListed ? selected : "";
    this.text.hidden = this.menu.value !== "";
    this.host.replaceChildren(el("label", {}, el("span", {}, this.label), this.menu), this.text);
  }

  #pick() {
    this.text.hidden = this.menu.value !== "";
    if (this.text.hidden) this.onChange(this.value);
    else this.text.focus();
  }

  get value() {
    return this.menu.value || this.text.value.trim();
  }
}

/** Check an agent spec; throw an error if it is invalid. */
export const checkAgent = (agent, game) => post("/agent", { agent, game });
