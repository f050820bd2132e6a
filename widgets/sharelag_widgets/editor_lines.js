// The visible lines of the editor: a member's name, and its partitions as chips.

import { isUnknown } from "./shared/columns.js";
import { button, make, named } from "./shared/dom.js";
import { isolated, number, shown, words } from "./shared/format.js";

/** Pixels: the height of a line, and the width of the names beside the chips. */
export const LINE = 34;
export const NAMES = 216;
const GAP = 6;

/** The width of a chip for these labels, and the number of chips per line. */
export function chipsOf(labels, width, shared) {
  const apart = width < 560;
  const longest = labels.reduce((most, label) => Math.max(most, label.length), 4);
  const chip = Math.max(72, Math.round(Math.min(longest, 22) * 7.4) + (shared ? 56 : 34));
  return { apart, chip, perLine: Math.max(1, Math.floor((width - (apart ? 14 : NAMES) - 8) / (chip + GAP))) };
}

/** Replace the lines that differ; the others stay for a pointer or a screen reader on them. */
export function renewed(list, fresh) {
  const there = [...list.children];
  if (there.length !== fresh.length) return list.replaceChildren(...fresh);
  return fresh.forEach((one, n) => one.isEqualNode(there[n]) || there[n].replaceWith(one));
}

/** A partition in a group, in words. */
export function placeWords(scene, { name }, row) {
  const { columns, measure, held, base } = scene;
  const column = columns[measure];
  const value = column ? `, ${words(measure).toLowerCase()} ${isUnknown(column, row) ? "not known" : shown(column, row, measure)}` : "";
  const others = [...held].filter(([member, rows]) => member !== name && rows.has(row)).map(([member]) => isolated(member));
  const also = others.length > 3 ? `${others.slice(0, 3).join(", ")} and ${others.length - 3} more` : others.join(", ");
  const moved = name !== null && !base.get(name)?.has(row) ? ", not there at first" : "";
  return `${scene.labels[row]} ${name === null ? "without a member" : `of ${isolated(name)}`}${value}${also ? `, also of ${also}` : ""}${moved}`;
}

/** A member in words. */
export function memberWords(scene, group) {
  if (group.name === null) return group.all ? `${number(group.all)} without a member` : "Every partition has a member";
  const load = scene.loadOf(group.name);
  const rest = load.text ? `, ${words(scene.measure).toLowerCase()} ${load.text}` : "";
  const label = scene.memberLabels[group.name];
  return `${isolated(group.name)}${label ? ` (${isolated(label)})` : ""}: ${group.all === 1 ? "1 partition" : `${number(group.all)} partitions`}${rest}`;
}

/** One line as an element. */
export function lineOf(scene, line) {
  const { layout, groups, id } = scene;
  const number_ = layout.group[line];
  const group = groups[number_];
  const first = layout.first[line];
  const isHead = line === layout.starts[number_];
  const cells = [];
  if (isHead) cells.push(headOf(scene, group, number_));
  for (let at = Math.max(first, 0); first >= 0 && at < Math.min(first + layout.perLine, group.rows.length); at++) cells.push(chipOf(scene, group, number_, at));
  const target = scene.target === group.name && scene.target !== undefined;
  return make("div", {
    role: "row", id: `${id}-line-${line}`, "aria-rowindex": line + 1, data: { group: number_, place: group.name === null ? "none" : "member" },
    class: `sl-line${isHead ? " sl-first" : ""}${target ? " sl-target" : ""}${group.name === null ? " sl-alone" : ""}${layout.apart ? " sl-apart" : ""}`,
  }, ...cells);
}

function headOf(scene, group, number_) {
  const { active, locked } = scene;
  const isActive = active.group === number_ && active.position < 0;
  const load = group.name === null ? { text: "", share: 0 } : scene.loadOf(group.name);
  const count = group.rows.length === group.all ? number(group.all) : `${number(group.rows.length)} of ${number(group.all)}`;
  const isNew = group.name !== null && !scene.base.has(group.name);
  const idle = group.name !== null && group.all === 0;
  const title = group.name === null ? make("span", { class: "sl-name" }, "Without a member") : named(group.name);
  return make("div", {
    role: "rowheader", id: `${scene.id}-${number_}-name`, class: `sl-member${isActive ? " sl-active" : ""}${(group.name === null && group.all) || idle ? " sl-bad" : ""}`,
    data: { position: -1 }, "aria-label": memberWords(scene, group),
  },
  make("span", { class: "sl-who" }, title, isNew ? make("span", { class: "sl-tag" }, "new") : null),
  make("span", { class: "sl-count" }, idle ? "idle" : group.name === null && !group.all ? "none" : count),
  group.name === null ? null : button("\u00d7", null, { class: "sl-remove", disabled: locked, tabindex: -1, "aria-label": `Remove ${isolated(group.name)}`, data: { remove: "" } }),
  load.text ? make("span", { class: "sl-track", "aria-hidden": "true" }, make("span", { style: { width: `${100 * load.share}%` } })) : null);
}

function chipOf(scene, group, number_, at) {
  const { columns, measure, labels, active, holders, most } = scene;
  const row = group.rows[at];
  const value = columns[measure] ? columns[measure].values[row] : NaN;
  const isActive = active.group === number_ && active.position === at;
  const isNew = group.name !== null && !scene.base.get(group.name)?.has(row);
  const lifted = scene.lifted && scene.lifted.from === group.name && scene.lifted.rows.includes(row);
  return make("div", {
    role: "gridcell", id: `${scene.id}-${number_}-${at}`, "aria-selected": String(scene.picked.has(row)), title: placeWords(scene, group, row),
    class: `sl-chip${isActive ? " sl-active" : ""}${isNew ? " sl-moved" : ""}${lifted ? " sl-lifted" : ""}`,
    data: { row, position: at }, style: { width: `${scene.chip}px` },
  },
  isNew ? make("span", { class: "sl-plus", "aria-hidden": "true" }, "+") : null, make("bdi", {}, labels[row]),
  holders[row] > 1 ? make("span", { class: "sl-times" }, `\u00d7${holders[row]}`) : null,
  value > 0 ? make("span", { class: "sl-load", "aria-hidden": "true", style: { width: `${Math.max(3, (100 * value) / most)}%` } }) : null);
}
