// An assignment editor for mouse and keyboard, with a what-if and its difference.

import { button, make, ownsKeys, takesKeys } from "./shared/dom.js";
import { counted, isolated, number, words } from "./shared/format.js";
import { pickedRows } from "./shared/rows.js";
import { inSight } from "./shared/sight.js";
import { view } from "./shared/view.js";
import { draggable } from "./editor_drag.js";
import { LINE, chipsOf, lineOf, memberWords, placeWords, renewed } from "./editor_lines.js";
import { asRanges, changesOf, folded, freshName, groupsOf, holdersOf, lineAt, linesOf, stepped } from "./editor_math.js";
import { assignmentTable, runPanel } from "./editor_run.js";

const TALLEST = 12 * LINE;
const WATCHED = ["edits", "at", "filter", "picked", "choices", "runs", "state", "progress", "result", "failure", "member_labels"];
const NAVIGATION = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "PageUp", "PageDown", "Home", "End"];
const HELP = "Arrow keys: from partition to partition, and to names. Space: pick; with shift, add to what is picked. " +
  "Enter: lift the partition, with all of its member that are picked; up and down: choose a member; Enter: move it there; with shift, add it there too; Escape: put it back. " +
  "Delete: take the partition away, on a name remove the member. M: choose a member by name. Ctrl+A: pick all of this member. Ctrl+Z, Ctrl+Y: undo, redo. Escape: pick nothing. " +
  "Mouse: drag a partition onto a member to move it, with ctrl to add it there too, off them to take it away.";
let editors = 0;

function build({ model, root, link, say, later }) {
  const id = `sl-editor-${++editors}`;
  let [columns, labels, base, held, groups, layout, folding, arranged] = [null, [], new Map(), new Map(), [], null, "", ""];
  let [active, kept, lifted, told_, scene] = [{ group: 0, position: -1 }, null, null, "", null];
  const picks = pickedRows(model, link);
  const get = (name) => model.get(name);
  const panel = runPanel({ model, link, say, later });
  const { busy } = panel;

  // ---- the elements ----
  const filter = ownsKeys(make("input", { type: "search", size: 16, placeholder: "member, partition", oninput: () => link.tell({ filter: filter.value }) }));
  const choice = ownsKeys(make("select", { "aria-label": "Assignment to load" }));
  const load_ = button("Load", () => loadChoice());
  const undo = button("Undo", () => step(-1));
  const redo = button("Redo", () => step(1));
  const asTable = button("Show as table", () => { table.hidden = !table.hidden; later(); }, { "aria-expanded": "false" });
  const bar = make("div", { class: "sl-bar" }, make("label", {}, "Filter", filter), make("span", { class: "sl-push" }), choice, load_, undo, redo, asTable);
  const list = ownsKeys(make("div", { class: "sl-lines", role: "grid", tabindex: 0, "aria-multiselectable": "true", "aria-label": "Members and their partitions", onscroll: later }));
  const spot = make("p", { class: "sl-spot" });
  const count = make("strong", { class: "sl-picked" });
  const to = ownsKeys(make("select", { "aria-label": "Member" }));
  const move = button("Move there", () => movePicked());
  const share = button("Add there too", () => edit({ do: "assign", rows: asRanges(picks.rows()), to: to.value }, `${several(picks.rows())} added to ${isolated(to.value)}`));
  const away = button("Take away", () => edit({ do: "take", rows: asRanges(picks.rows()), from: null }, `${several(picks.rows())} taken from all members`));
  const fresh = ownsKeys(make("input", { type: "text", size: 12, "aria-label": "Name of a new member", maxlength: 249 }));
  const add = button("Add a member", () => addMember());
  const actions = make("div", { class: "sl-bar" }, count, to, move, share, away, make("span", { class: "sl-push" }), fresh, add);
  const summary = make("p", { class: "sl-told" });
  const legend = make("ul", { class: "sl-legend sl-soft", "aria-label": "Marks" });
  const table = ownsKeys(make("div", { class: "sl-scroll", hidden: true, tabindex: 0, role: "region", "aria-label": "The assignment as a table" }));
  const help = make("details", { class: "sl-soft" }, make("summary", {}, "Keys and mouse"), make("p", {}, HELP));

  // ---- user input ----
  const several = (rows) => (rows.length === 1 ? labels[rows[0]] : counted(rows.length, "partition"));
  function edit(about, what) {
    if (busy()) return say("The what-if is running: cancel it, or wait, to continue editing.");
    lifted = null;
    told_ = what;
    const edits = [...get("edits").slice(0, get("at")), { id: crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`, ...about }];
    return link.tell({ edits, at: edits.length, failure: "" });
  }
  // Keys may arrive faster than repaints.
  function step(by) {
    const at = get("at") + by;
    if (!busy() && at >= 0 && at <= get("edits").length) link.tell({ at });
  }
  function movePicked() {
    edit({ do: "move", rows: asRanges(picks.rows()), from: null, to: to.value }, `${several(picks.rows())} moved to ${isolated(to.value)}`);
  }
  function addMember() {
    const name = fresh.value.trim() || fresh.placeholder;
    if (held.has(name)) return say(`There is a member ${isolated(name)} already: choose another name.`);
    fresh.value = "";
    kept = { name, row: -1 };
    return edit({ do: "add", member: name }, `${isolated(name)} added, without partitions`);
  }
  function removeMember(name) {
    edit({ do: "remove", member: name }, `${isolated(name)} removed, with ${counted(held.get(name)?.size ?? 0, "partition")}`);
  }
  function loadChoice() {
    if (choice.selectedIndex === 0) return edit({ do: "reset" }, "Loaded: the original");
    return panel.ask("load", choice.value);
  }
  const rowAt = () => (active.position < 0 ? -1 : groups[active.group].rows[active.position]);
  function go(place) {
    active = place;
    kept = null;
    reveal();
    later();
  }
  function reveal() {
    const top = lineAt(layout, active) * LINE;
    if (top < list.scrollTop) list.scrollTop = top;
    if (top + LINE > list.scrollTop + list.clientHeight) list.scrollTop = top + LINE - list.clientHeight;
  }
  function pick(row, more) {
    const isAlone = picks.rows().length === 1 && picks.rows()[0] === row;
    picks.pick(row < 0 ? groups[active.group].rows : isAlone && !more ? [] : [row], columns, more);
  }
  /** The partition at the cursor, and with it those of the same member that are picked. */
  function handful(group, row) {
    const picked = new Set(picks.rows());
    return { from: group.name, rows: picked.has(row) ? Array.from(group.rows).filter((one) => picked.has(one)) : [row] };
  }
  function lift() {
    if (busy() || active.position < 0) return;
    lifted = { ...handful(groups[active.group], rowAt()), target: active.group };
    say(`${several(lifted.rows)} lifted. Up and down: choose a member. Enter: move it there; with shift, add it there too. Escape: put it back.`);
    later();
  }
  function drop({ from, rows }, target, too) {
    const names = several(rows);
    kept = { name: target, row: rows[0] };
    if (target === from) [lifted, kept] = [null, null];
    else if (target === null) edit({ do: "take", rows: asRanges(rows), from }, `${names} taken from ${isolated(from)}`);
    else if (from === null || too) edit({ do: "assign", rows: asRanges(rows), to: target }, `${names} added to ${isolated(target)}`);
    else edit({ do: "move", rows: asRanges(rows), from, to: target }, `${names} moved from ${isolated(from)} to ${isolated(target)}`);
    later();
  }
  function aim(by) {
    lifted.target = Math.max(0, Math.min(groups.length - 1, lifted.target + by));
    active = { group: lifted.target, position: -1 };
    reveal();
    say(`Over ${memberWords(scene, groups[lifted.target])}`);
    later();
  }
  const lifting = {
    ArrowUp: () => aim(-1),
    ArrowDown: () => aim(1),
    Enter: ({ shiftKey }) => drop(lifted, groups[lifted.target].name, shiftKey),
    Escape: () => { lifted = null; say("Put back."); later(); },
  };
  function takeAway() {
    const group = groups[active.group];
    if (group.name === null) return;
    if (active.position < 0) return removeMember(group.name);
    const taken = handful(group, rowAt());
    edit({ do: "take", rows: asRanges(taken.rows), from: group.name }, `${several(taken.rows)} taken from ${isolated(group.name)}`);
  }
  const keys = {
    ...Object.fromEntries(NAVIGATION.map((key) => [key, () => go(stepped(groups, layout.perLine, active, key))])),
    " ": ({ shiftKey }) => pick(rowAt(), shiftKey),
    Enter: lift,
    Delete: takeAway,
    Backspace: takeAway,
    Escape: () => picks.pick([], columns),
    m: () => { if (active.position >= 0 && !new Set(picks.rows()).has(rowAt())) pick(rowAt(), false); later(); setTimeout(() => to.focus()); },
  };
  const commands = {
    a: () => pick(-1, false),
    z: ({ shiftKey }) => step(shiftKey ? 1 : -1),
    y: () => step(1),
  };
  takesKeys(list, (event) => {
    if (event.target !== list || !layout) return null;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    return event.ctrlKey || event.metaKey ? commands[key] : drag.now ? (key === "Escape" ? drag.end : null) : lifted ? lifting[key] : keys[key];
  });
  list.addEventListener("focus", later);
  list.addEventListener("blur", () => { lifted = null; later(); });

  // ---- the mouse ----
  function clicked({ group, position, removes }, event) {
    [active, kept] = [{ group, position }, null];
    if (removes) removeMember(groups[group].name);
    else if (position >= 0) pick(rowAt(), event.shiftKey || event.ctrlKey || event.metaKey);
    later();
  }
  const drag = draggable(list, {
    busy, clicked, later, height: LINE, nameOf: (group) => groups[group].name, dropped: drop, handful: (group, row) => handful(groups[group], row),
  });

  // ---- content ----
  function load(loaded) {
    const [places, members] = [labels, [...base.keys()]].map((names) => JSON.stringify(names));
    columns = loaded;
    picks.load(columns);
    labels = Array.from(columns._label.values, (code) => columns._label.texts[code]);
    base = new Map(columns._member.texts.map((name) => [name, new Set()]));
    columns._pair_member.values.forEach((member, n) => base.get(columns._member.texts[member]).add(columns._pair_row.values[n]));
    [folding, arranged] = ["", ""];
    // A move in progress continues if only numbers are new.
    const isSame = JSON.stringify(labels) === places;
    if (!isSame) [active, kept] = [{ group: 0, position: -1 }, null];
    if (!isSame || JSON.stringify([...base.keys()]) !== members) lifted = null;
  }
  function fold() {
    const last = get("edits")[get("at") - 1];
    const mark = `${root.dataset.loaded} ${get("at")} ${last?.id}`;
    if (mark === folding) return;
    held = folded(base, get("edits"), get("at"));
    folding = mark;
  }
  function arrange() {
    const { chip, perLine, apart } = chipsOf(labels, list.clientWidth, holdersOf(held, labels.length).some((count_) => count_ > 1));
    const mark = JSON.stringify([folding, get("filter"), perLine, apart, get("member_labels")]);
    if (mark === arranged) return;
    // The cursor follows its partition or member.
    const on = kept ?? (groups.length ? { name: groups[active.group]?.name ?? null, row: rowAt() } : { name: null, row: -1 });
    groups = groupsOf(held, labels, get("filter"));
    layout = linesOf(groups, perLine, apart);
    const group = groups.findIndex(({ name }) => name === on.name);
    const home = group < 0 ? Math.min(active.group, groups.length - 1) : group;
    const position = Array.from(groups[home].rows).indexOf(on.row);
    active = { group: home, position: position >= 0 || on.row < 0 ? position : Math.min(active.position, groups[home].rows.length - 1) };
    if (kept) reveal();
    kept = null;
    arranged = mark;
    const loads = loadsOf();
    scene = { id, columns, labels, base, held, groups, layout, chip, measure: get("measure"), memberLabels: get("member_labels"), holders: holdersOf(held, labels.length), most: loads.most, loadOf: loads.of };
    writeMembers();
  }
  // The members of a partition share its value.
  function loadsOf() {
    const column = columns[get("measure")];
    const holders = holdersOf(held, labels.length);
    const sums = new Map(Array.from(held, ([name, rows]) => [name, column ? [...rows].reduce((sum, row) => sum + (column.values[row] || 0) / holders[row], 0) : 0]));
    const highest = Math.max(1e-9, ...sums.values());
    return { most: column ? column.values.reduce((a, b) => (b > a ? b : a), 1) : 1, of: (name) => ({ text: column ? number(Math.round(sums.get(name))) : "", share: sums.get(name) / highest }) };
  }
  function writeMembers() {
    const before = to.value;
    to.replaceChildren(...Array.from(held.keys(), (name) => make("option", { value: name }, name)));
    if (held.has(before)) to.value = before;
    fresh.placeholder = freshName([...held.keys()]);
    const marks = [columns[get("measure")] && [make("span", { class: "sl-load" }), words(get("measure"))], [make("span", { class: "sl-plus" }, "+"), "not there at first"], [make("span", { class: "sl-times" }, "\u00d72"), "has several members"]];
    legend.replaceChildren(...marks.filter(Boolean).map(([mark, text]) => make("li", {}, make("span", { class: "sl-chip sl-mark", "aria-hidden": "true" }, mark), text)));
  }
  function paint() {
    const begun = performance.now();
    fold();
    arrange();
    list.style.height = `${Math.min(layout.total * LINE, TALLEST) + 2}px`;
    const dragging = drag.now;
    Object.assign(scene, {
      active, picked: new Set(picks.rows()), locked: busy(), lifted: lifted ?? dragging,
      target: lifted ? groups[lifted.target]?.name : dragging ? dragging.target : undefined,
    });
    const { first, end } = inSight(list.scrollTop, list.clientHeight || TALLEST, LINE, layout.total, 3);
    const made = Array.from({ length: end - first }, (_, n) => lineOf(scene, first + n));
    const filler = (count_) => make("div", { role: "presentation", style: { height: `${count_ * LINE}px` } });
    renewed(list, [filler(first), ...made, filler(layout.total - end)]);
    list.setAttribute("aria-rowcount", layout.total);
    const here = `${id}-${active.group}-${active.position < 0 ? "name" : active.position}`;
    if (list.querySelector(`[id="${here}"]`)) list.setAttribute("aria-activedescendant", here);
    else list.removeAttribute("aria-activedescendant");
    write();
    panel.write();
    if (!table.hidden) table.replaceChildren(assignmentTable(held, base, columns, labels));
    Object.assign(root.dataset, { members: held.size, groups: groups.length, lines: layout.total, made: made.length, active: JSON.stringify(active), paintMs: (performance.now() - begun).toFixed(2) });
    performance.measure("sharelag-editor", { start: begun, end: performance.now() });
  }
  function write() {
    const locked = busy();
    root.setAttribute("aria-busy", String(locked));
    const chosen = picks.rows();
    if (document.activeElement !== filter) filter.value = get("filter");
    const options = ["The original", ...get("choices")];
    if (choice.dataset.options !== JSON.stringify(options)) {
      choice.dataset.options = JSON.stringify(options);
      choice.replaceChildren(...options.map((name) => make("option", { value: name }, name)));
    }
    for (const control of [choice, load_, to, fresh, add]) control.disabled = locked;
    for (const control of [move, share, away]) control.disabled = locked || chosen.length === 0 || (control !== away && held.size === 0);
    undo.disabled = locked || get("at") === 0;
    redo.disabled = locked || get("at") >= get("edits").length;
    asTable.setAttribute("aria-expanded", String(!table.hidden));
    count.textContent = chosen.length ? `${number(chosen.length)} picked` : "None picked";
    const group = groups[active.group];
    const text = active.position < 0 ? memberWords(scene, group) : placeWords(scene, group, rowAt());
    spot.replaceChildren(make("bdi", {}, lifted ? `Lifted: ${several(lifted.rows)}; over ${memberWords(scene, groups[lifted.target])}` : text));
    const { added, taken, joined, left } = changesOf(base, held);
    const alone = groups[0].all;
    const idle = [...held.values()].filter((rows) => rows.size === 0).length;
    const changed = [added && `${number(added)} added`, taken && `${number(taken)} removed`, joined.length && `${counted(joined.length, "member")} new`, left.length && `${counted(left.length, "member")} removed`].filter(Boolean);
    const line = `${counted(held.size, "member")}, ${counted(labels.length, "partition")}; ${alone ? `${number(alone)} without a member` : "every one has a member"}${idle ? `; ${counted(idle, "member")} without a partition` : ""}. ` +
      `${changed.length ? `Edited: ${changed.join(", ")}.` : "Not edited."}`;
    summary.textContent = line;
    if (root.dataset.told !== line || told_) say(`${told_ ? `${told_}. ` : ""}${line}`);
    told_ = "";
    root.dataset.told = line;
    drag.write(root, drag.now ? several(drag.now.rows) : "");
  }
  const stop = () => {
    drag.stop();
    panel.stop();
  };
  return { elements: [bar, list, drag.ghost, spot, actions, summary, legend, panel.element, panel.failure, table, help], load, paint, hear: picks.hear, stop };
}

export default { render: (context) => view(context, "editor", build, WATCHED) };
