// HTTP interface page: documentation of the JSON API, generated from the OpenAPI document.

import { get } from "./lib/api.js";
import { byId, el, showError, table } from "./lib/dom.js";

let schemas = {};

async function begin() {
  const api = await get("/openapi.json");
  schemas = api.components?.schemas ?? {};
  const groups = new Map();
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, route] of Object.entries(methods)) {
      const [tag = "other"] = route.tags ?? [];
      groups.set(tag, [...(groups.get(tag) ?? []), describe(method, path, route)]);
    }
  }
  const titles = [...groups.keys()];
  byId("contents").replaceChildren(...titles.map((tag) => el("a", { href: `#${idOf(tag)}` }, tag)));
  byId("routes").replaceChildren(
    ...titles.map((tag) =>
      el("section", { "aria-labelledby": idOf(tag) }, el("h2", { id: idOf(tag) }, tag), groups.get(tag)),
    ),
  );
}

const idOf = (tag) => tag.replaceAll(" ", "-");

function describe(method, path, route) {
  const text = route.description ?? route.summary ?? "";
  const request = route.requestBody?.content?.["application/json"]?.schema;
  const response = route.responses?.["200"]?.content?.["application/json"]?.schema;
  return el(
    "details",
    { class: "panel route" },
    el("summary", {}, el("code", {}, `${method.toUpperCase()} ${path}`), " ", el("span", { class: "soft remark" }, firstSentence(text))),
    el("p", {}, text),
    route.parameters?.length ? parameterTable(route.parameters) : null,
    request ? [el("h3", {}, "Request"), shape(request)] : null,
    response ? [el("h3", {}, "Response"), shape(response)] : null,
  );
}

const firstSentence = (text) => text.split(/(?<=\.)\s/)[0];

function parameterTable(parameters) {
  const rows = parameters
    .filter((each) => each.in === "query" || each.in === "path")
    .map((each) => [el("code", {}, each.name), typeOf(each.schema), each.required ? "required" : "", each.description ?? ""]);
  return rows.length ? table(["parameter", "type", "", "meaning"], rows, { caption: "Parameters" }) : null;
}

/** Tables of the fields in a type and in all types nested in it. */
function shape(schema) {
  const seen = new Set();
  const waiting = namesIn(schema);
  const parts = [el("p", {}, typeOf(schema))];
  while (waiting.length) {
    const name = waiting.shift();
    if (seen.has(name) || !schemas[name]?.properties) continue;
    seen.add(name);
    const { properties, required = [], description = "" } = schemas[name];
    waiting.push(...Object.values(properties).flatMap(namesIn));
    const rows = Object.entries(properties).map(([field, each]) => [
      el("code", {}, field), typeOf(each), required.includes(field) ? "" : "optional", each.description ?? "",
    ]);
    parts.push(el("h4", {}, name), el("p", { class: "soft" }, description), table(["field", "type", "", "meaning"], rows, { caption: name }));
  }
  return el("div", {}, parts);
}

const nameOf = (reference) => reference.slice(reference.lastIndexOf("/") + 1);

function namesIn(schema) {
  if (!schema || typeof schema !== "object") return [];
  if (schema.$ref) return [nameOf(schema.$ref)];
  const inner = [schema.items, schema.additionalProperties, ...(schema.anyOf ?? []), ...(schema.prefixItems ?? []), ...(schema.oneOf ?? [])];
  return inner.flatMap(namesIn);
}

function typeOf(schema) {
  if (!schema) return "";
  if (schema.$ref) return nameOf(schema.$ref);
  if (schema.anyOf ?? schema.oneOf) return (schema.anyOf ?? schema.oneOf).map(typeOf).join(" or ");
  if (schema.enum) return schema.enum.map((each) => JSON.stringify(each)).join(", ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.type === "array") return schema.prefixItems ? `[${schema.prefixItems.map(typeOf).join(", ")}]` : `list of ${typeOf(schema.items)}`;
  if (schema.type === "object" && schema.additionalProperties) return `map of ${typeOf(schema.additionalProperties)}`;
  return schema.type ?? "anything";
}

begin().catch((error) => showError(byId("error"), error));
