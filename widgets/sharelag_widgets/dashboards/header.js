// The header of a dashboard and of its parts: moment, age, definitions and unknown values.

import { codeButtons } from "../shared/code.js";
import { announcer, button, failureOf, make, ownsKeys } from "../shared/dom.js";
import { counted, duration, local, number, unitsOf, utc, words } from "../shared/format.js";
import { hearing } from "../shared/hearing.js";
import { menu } from "../shared/menu.js";
import { chooseTheme, watchTheme } from "../shared/theme.js";

const WATCHED = ["title", "level", "as_of", "above", "units", "source", "about", "help", "finding", "facts", "unknown", "notes", "failure", "code", "names", "busy", "earlier", "live", "every", "paused", "stale_after"];
const [TICK, KNOCK] = [1000, 5000];
const THEMES = { "": "Auto", light: "Light", dark: "Dark" };
/** Of more notes the rest opens. */
const NOTES = 6;
const ENDED = "The kernel of this dashboard has ended: run the cell again";

/** An age as 35 s, 10m, 2h 5m: in steps, so that it does not change constantly. */
export function age(milliseconds) {
  const seconds = milliseconds / 1000;
  return seconds < 60 ? `${5 * Math.floor(seconds / 5)} s` : unitsOf(60 * Math.floor(seconds / 60)).join(" ");
}

/** Build it, and keep it up to date; returns a function that ends it. */
function render({ model, el }) {
  const get = (name) => model.get(name);
  const main = get("level") < 3;
  const root = make("section", { class: `sl sl-head sl-level-${get("level")}` });
  el.append(root);
  const voice = announcer();
  const heading = make(`h${get("level")}`, { class: "sl-title" });
  const when = make("p", { class: "sl-when" });
  const badge = make("strong", { class: "sl-badge", hidden: true });
  const refresh = button("Refresh", () => ask(), { class: "sl-refresh" });
  const pause = button("Pause", () => {
    model.set("paused", !get("paused"));
    model.save_changes();
    voice.say(get("paused") ? "Refreshing is paused." : "Refreshing goes on.");
  }, { class: "sl-pause" });
  const panel = make("div", { class: "sl-help", hidden: true, role: "region" });
  const ask4help = button("?", () => {
    panel.hidden = !panel.hidden;
    ask4help.setAttribute("aria-expanded", String(!panel.hidden));
  }, { class: "sl-ask", "aria-expanded": "false" });
  // One chip for all unknown values, which opens their list.
  const gaps = make("div", { class: "sl-gaps", hidden: true, role: "region", "aria-label": "Not known" });
  const chip = button("", () => {
    gaps.hidden = !gaps.hidden;
    chip.setAttribute("aria-expanded", String(!gaps.hidden));
  }, { class: "sl-chip", "aria-expanded": "false", hidden: true });
  const themes = ownsKeys(make("select", { "aria-label": "Theme", onchange: () => chooseTheme(root.closest(".sharelag-dashboard") ?? root, themes.value) },
    ...Object.entries(THEMES).map(([value, words]) => make("option", { value }, words))));
  for (const [control, opened] of [[ask4help, panel], [chip, gaps]]) {
    for (const element of [control, opened]) element.addEventListener("keydown", (event) => escape(event, control, opened));
  }
  const failure = make("p", { class: "sl-failure", role: "alert", hidden: true });
  const [said, restTitle, restSaid] = [make("div"), make("summary"), make("div")];
  const rest = make("details", {}, restTitle, restSaid); // stays open while notes change
  const facts = make("div", { class: "sl-facts" }, said, rest);
  const picked = make("div", { class: "sl-picked" });
  const about = make("p", { class: "sl-soft" });
  const more = menu("More", about, picked);
  const below = make("div");
  const top = make("div", { class: "sl-top" }, heading, badge, when, chip,
    make("div", { class: "sl-tools" }, ...(main ? [themes, refresh, pause] : []), ask4help, ...(main ? [more] : [])));
  root.append(top, panel, gaps, failure, facts, below, voice.element);

  function escape(event, control, opened) {
    if (event.key !== "Escape" || opened.hidden) return;
    event.stopPropagation();
    control.click();
    control.focus();
  }
  let [requested, knocked, isGone] = [Date.now(), 0, false];
  const isBusy = () => get("busy") && !isGone;
  function ask() {
    requested = Date.now();
    send({ refresh: true });
  }
  const knock = () => send({ there: true });
  // A dead kernel is noticed only when something is sent.
  function send(message) {
    knocked = Date.now();
    try {
      model.send(message);
      turn(false);
    } catch {
      turn(true);
    }
  }
  function turn(gone) {
    if (gone === isGone) return;
    isGone = gone;
    if (gone) voice.say(ENDED);
    guarded(paint);
  }
  function tick() {
    if (!root.isConnected) return;
    if (main && !isGone) next(Date.now());
    guarded(clock);
  }
  function next(now) {
    const due = get("live") && get("every") > 0 && !get("paused") && !get("busy") && !document.hidden;
    if (get("busy") && now - knocked >= KNOCK) knock(); // it may have ended while it read
    if (due && now - requested >= get("every") * 1000) ask();
  }

  // ---- painting; elements that are up to date are left alone, so that people can select and read their text ----
  const trouble = failureOf(root);
  function guarded(act) {
    try {
      act();
      if (act === paint) trouble.mend(); // everything was painted; a running clock proves nothing about the rest
    } catch (error) {
      if (act === paint || !("failed" in root.dataset)) trouble.tell(error);
    }
  }
  const marks = new Map();
  function renew(element, content, elementsOf) {
    const mark = JSON.stringify(content);
    if (marks.get(element) === mark) return;
    element.replaceChildren(...elementsOf(content));
    marks.set(element, mark); // last, so that a failed paint is tried again
  }
  function clock() {
    const own = get("as_of");
    const at = !main && own === get("above") ? null : own; // the dashboard's header shows it for all
    const old = at === null ? null : Math.max(0, Date.now() - at);
    const here = at === null ? "" : local(at);
    const ago = old === null ? "" : old < 5000 ? "just now" : `${age(old)} ago`;
    const parts = at === null ? (main ? ["As of a time that is not known"] : []) : [`As of ${utc(at)}`, ...[main && ago, here].filter(Boolean)];
    if (get("units")) parts.push(get("units"));
    if (main && get("source")) parts.push(get("source"));
    if (main && isGone) parts.push(ENDED);
    else if (main && get("live") && get("every") > 0) parts.push(get("paused") ? "refreshing is paused" : `refreshes every ${duration(get("every") * 1000)}`);
    hide(when, !parts.length);
    while (when.children.length > parts.length) when.lastChild.remove();
    parts.forEach((text, n) => write(when.children[n] ?? when.appendChild(make("bdi")), text));
    const stale = get("live") && !get("earlier") && old !== null && old > get("stale_after") * 1000;
    hide(badge, !(main && (stale || !get("live") || get("earlier") || isBusy())));
    write(badge, isBusy() ? "Working …" : stale ? `Stale: ${age(old)} old` : get("earlier") ? "Earlier moment" : "Recorded");
    badge.classList.toggle("sl-stale", stale && !isBusy());
    if (root.dataset.stale !== String(stale)) root.dataset.stale = String(stale);
  }
  const bdi = (text) => make("bdi", {}, text);
  const linesOf = (texts) => texts.map((text) => make("p", {}, bdi(text)));
  function paint() {
    renew(heading, get("title"), (title) => [bdi(title)]);
    root.setAttribute("aria-label", get("title"));
    root.setAttribute("aria-busy", String(isBusy()));
    refresh.disabled = isBusy();
    pause.hidden = !get("live") || !(get("every") > 0);
    write(pause, get("paused") ? "Go on" : "Pause");
    pause.setAttribute("aria-pressed", String(get("paused")));
    ask4help.setAttribute("aria-label", `What does ${get("title")} show?`);
    panel.setAttribute("aria-label", `Help: ${get("title")}`);
    renew(panel, get("help"), (help) => [make("dl", {}, ...help.flatMap(([term, meaning]) => [make("dt", {}, bdi(words(term))), make("dd", {}, bdi(meaning))]))]);
    ask4help.hidden = !get("help").length;
    write(failure, get("failure"));
    hide(failure, !get("failure"));
    root.dataset.names = get("names");
    renew(about, get("about"), (text) => [bdi(text)]);
    hide(picked, !get("code"));
    hide(more, !get("code") && !get("about"));
    renew(picked, get("code"), (code) => codeButtons(root, voice, below, [["Copy the Python for what is picked", code]], true));
    const notes = get("notes");
    const few = notes.length > NOTES ? NOTES - 1 : NOTES;
    renew(said, [get("finding"), get("facts"), notes.slice(0, few)], factsOf);
    hide(rest, notes.length <= few);
    write(restTitle, rest.hidden ? "" : `${number(notes.length - few)} more`);
    renew(restSaid, notes.slice(few), linesOf);
    const unknown = main ? get("unknown") : []; // for a part, the dashboard's header shows them
    hide(chip, !unknown.length);
    write(chip, `? ${counted(unknown.length, "thing")} not known`);
    if (!unknown.length) gaps.hidden = true;
    renew(gaps, unknown, (texts) => [make("ul", {}, ...texts.map((text) => make("li", {}, bdi(text))))]);
    clock();
    root.dataset.loaded = Number(root.dataset.loaded ?? 0) + 1;
  }
  function factsOf([finding, read, notes]) {
    const lines = [...(finding ? [make("p", { class: "sl-finding" }, bdi(finding))] : []), ...(read.length ? [make("p", { class: "sl-soft" }, ...read.flatMap((text) => [bdi(text), " "]))] : [])];
    return [...lines, ...linesOf(notes)];
  }
  const themed = () => {
    const theme = root.dataset.paper;
    if (!main || get("theme") === theme) return;
    model.set("theme", theme);
    model.save_changes();
  };
  const stopTheme = watchTheme(root, themed);
  themed();
  const events = [...WATCHED.map((name) => [`change:${name}`, () => guarded(paint)]), ["comm_live_update", () => main && knock()]];
  for (const [event, act] of events) model.on(event, act);
  const timer = setInterval(tick, TICK);
  guarded(paint);
  hearing(model);
  return () => {
    clearInterval(timer);
    for (const [event, act] of events) model.off(event, act);
    stopTheme();
    voice.stop();
    root.remove();
  };
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function hide(element, isHidden) {
  if (element.hidden !== isHidden) element.hidden = isHidden;
}

export default { render };
