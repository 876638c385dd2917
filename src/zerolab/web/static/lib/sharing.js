// Agents that come as files: dropped anywhere on a page, or chosen.

import { postFile } from "./api.js";
import { announce, el, showError } from "./dom.js";

const ENDING = ".zerolab";

/**
 * Take in files of agents: those dropped on the page, and those chosen by a button in `host`.
 * `onAgent({spec, game})` is called for each.
 */
export function acceptAgents(host, error, onAgent) {
  const take = async (file) => {
    showError(error, "");
    if (!file.name.endsWith(ENDING)) {
      showError(error, `${file.name} is no file of an agent: expected one that zerolab export has written`);
      return;
    }
    try {
      const agent = await postFile("/agents", file);
      announce(`${file.name} plays ${agent.game}.`);
      await onAgent(agent);
    } catch (reason) {
      showError(error, reason);
    }
  };
  const input = el("input", {
    type: "file", accept: ENDING, class: "unseen", tabindex: -1, "aria-label": "File of an agent",
    onchange: () => [...input.files].forEach(take),
  });
  const button = el("button", { type: "button", onclick: () => input.click() }, "Bring an agent's file …");
  host.append(button, input);
  document.addEventListener("dragover", (event) => {
    if (event.dataTransfer.types.includes("Files")) event.preventDefault();
  });
  document.addEventListener("drop", (event) => {
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    [...event.dataTransfer.files].forEach(take);
  });
}

/** Where a network of a run can be taken away as a file. */
export const fileOf = (network) => `/api/v1/agents/file?${new URLSearchParams({ network })}`;
