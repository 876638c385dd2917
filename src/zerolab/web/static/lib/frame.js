// Theme switch, links, and the skip link on every page.

import { byId } from "./dom.js";

const KEY = "zerolab-theme";
const root = document.documentElement;
const prefersDark = matchMedia("(prefers-color-scheme: dark)");

function apply() {
  root.dataset.theme = localStorage.getItem(KEY) ?? (prefersDark.matches ? "dark" : "light");
}

prefersDark.addEventListener("change", apply);
byId("theme").addEventListener("click", () => {
  localStorage.setItem(KEY, root.dataset.theme === "dark" ? "light" : "dark");
  apply();
});
apply();

// Pages keep their state in the URL fragment; changing it would reload the page or lose its game.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("main").focus();
});

// On a phone, the links scroll sideways, and the current one can be out of sight.
document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
