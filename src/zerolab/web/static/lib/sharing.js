// Upload and download of agent files, and copying to the clipboard.

import { postFile } from "./api.js";
import { announce, byId, el, showError } from "./dom.js";

const ENDING = ".zerolab";

/**
 * Upload agent files that are dropped on the page or selected with a button in `host`, and call
 * `onAgent({spec, game})` for each file.
 */
export function acceptAgents(host, error, onAgent) {
  const upload = async (file) => {
    showError(error, "");
    if (!file.name.endsWith(ENDING)) {
      showError(error, `${file.name} is not an agent file: expected one written by zerolab export`);
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
    type: "file", accept: ENDING, class: "unseen", tabindex: -1, "aria-label": "Agent file",
    onchange: () => [...input.files].forEach(upload),
  });
  const button = el("button", { type: "button", onclick: () => input.click() }, "Open an agent file…");
  host.append(button, input);
  document.addEventListener("dragover", (event) => {
    if (event.dataTransfer.types.includes("Files")) event.preventDefault();
  });
  document.addEventListener("drop", (event) => {
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    [...event.dataTransfer.files].forEach(upload);
  });
}

/** URL for downloading a run's network. */
export const fileOf = (network) => `/api/v1/agents/file?${new URLSearchParams({ network })}`;

/** Copy text to the clipboard and announce it, or select it in a field for the user to copy. */
export async function copyText(text, message, field) {
  try {
    await navigator.clipboard.writeText(text);
    announce(message);
    showError(byId("error"), "");
  } catch {
    field.value = text;
    field.closest("details").open = true;
    field.select();
  }
}
