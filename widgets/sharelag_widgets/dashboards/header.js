// What stands above a dashboard and above each of its parts: as of when and how old that is, the definition, what is not known.

import { announcer, button, failureOf, make } from "../shared/dom.js";
import { counted, duration, local, utc } from "../shared/format.js";
import { watchTheme } from "../shared/theme.js";
import { age } from "./age.js";

const WATCHED = ["title", "level", "as_of", "units", "source", "help", "finding", "facts", "unknown", "notes", "failure", "busy", "live", "every", "paused", "stale_after"];
const TICK = 1000;

/** Build it, and keep it up to date; returns what ends it. */
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
  panel.addEventListener("keydown", escape);
  ask4help.addEventListener("keydown", escape);
  const failure = make("p", { class: "sl-failure", role: "alert", hidden: true });
  const facts = make("div", { class: "sl-facts" });
  const top = make("div", { class: "sl-top" }, heading, badge, ...(main ? [] : [when]), make("span", { class: "sl-push" }), refresh, pause, ask4help);
  root.append(top, ...(main ? [when] : []), panel, failure, facts, voice.element);

  function escape(event) {
    if (event.key !== "Escape" || panel.hidden) return;
    event.stopPropagation();
    ask4help.click();
    ask4help.focus();
  }
  let asked = Date.now();
  function ask() {
    asked = Date.now();
    model.send({ refresh: true });
  }
  function tick() {
    if (!root.isConnected) return;
    const due = get("live") && get("every") > 0 && !get("paused") && !get("busy") && !document.hidden;
    if (main && due && Date.now() - asked >= get("every") * 1000) ask();
    guarded(clock);
  }

  // ---- what is shown; nothing is touched that is so already, or people could neither mark a text nor read in peace ----
  const trouble = failureOf(root);
  function guarded(act) {
    try {
      act();
      trouble.mend();
    } catch (error) {
      trouble.tell(error);
    }
  }
  const marks = new Map();
  function renew(element, content, elementsOf) {
    const mark = JSON.stringify(content);
    if (marks.get(element) === mark) return;
    marks.set(element, mark);
    element.replaceChildren(...elementsOf(content));
  }
  function clock() {
    const at = get("as_of");
    const old = at === null ? null : Math.max(0, Date.now() - at);
    const here = at === null ? "" : local(at);
    const ago = old === null ? "" : old < 5000 ? ", just now" : `, ${age(old)} ago`;
    const parts = at === null ? (main ? ["As of a time that is not known"] : []) : [`As of ${utc(at)}${here ? ` (${here})` : ""}${main ? ago : ""}`];
    if (get("units")) parts.push(get("units"));
    if (at !== null && !get("unknown").length) parts.push("nothing is unknown");
    if (main && get("source")) parts.push(get("source"));
    if (main && get("live") && get("every") > 0) parts.push(get("paused") ? "refreshing is paused" : `refreshes every ${duration(get("every") * 1000)}`);
    hide(when, !parts.length);
    while (when.children.length > parts.length) when.lastChild.remove();
    parts.forEach((text, n) => write(when.children[n] ?? when.appendChild(make("bdi")), text));
    const stale = get("live") && old !== null && old > get("stale_after") * 1000;
    hide(badge, !(main && (stale || !get("live") || get("busy"))));
    write(badge, get("busy") ? "Reading …" : stale ? `Stale: ${age(old)} old` : "Recorded");
    badge.classList.toggle("sl-stale", stale && !get("busy"));
    if (root.dataset.stale !== String(stale)) root.dataset.stale = String(stale);
  }
  const bdi = (text) => make("bdi", {}, text);
  function paint() {
    renew(heading, get("title"), (title) => [bdi(title)]);
    root.setAttribute("aria-label", get("title"));
    root.setAttribute("aria-busy", String(get("busy")));
    refresh.hidden = pause.hidden = !main;
    refresh.disabled = get("busy");
    pause.hidden = !main || !get("live") || !(get("every") > 0);
    write(pause, get("paused") ? "Go on" : "Pause");
    pause.setAttribute("aria-pressed", String(get("paused")));
    ask4help.setAttribute("aria-label", `What does ${get("title")} show?`);
    panel.setAttribute("aria-label", `Help: ${get("title")}`);
    renew(panel, get("help"), (help) => [make("dl", {}, ...help.flatMap(([term, meaning]) => [make("dt", {}, bdi(term)), make("dd", {}, bdi(meaning))]))]);
    ask4help.hidden = !get("help").length;
    write(failure, get("failure"));
    hide(failure, !get("failure"));
    renew(facts, ["finding", "facts", "notes", "unknown"].map(get), factsOf);
    clock();
    root.dataset.loaded = Number(root.dataset.loaded ?? 0) + 1;
  }
  function factsOf([finding, read, notes, unknown]) {
    const lines = [...(finding ? [make("p", { class: "sl-finding" }, bdi(finding))] : []), ...(read.length ? [make("p", { class: "sl-soft" }, ...read.flatMap((text) => [bdi(text), " "]))] : [])];
    lines.push(...notes.map((text) => make("p", {}, bdi(text))));
    if (unknown.length === 1) lines.push(make("p", { class: "sl-unknown" }, "Not known: ", bdi(unknown[0])));
    if (unknown.length > 1) {
      const list = make("ul", {}, ...unknown.map((text) => make("li", {}, bdi(text))));
      lines.push(make("details", { class: "sl-unknown", open: main }, make("summary", {}, `Not known: ${counted(unknown.length, "thing")}`), list));
    }
    return lines;
  }
  const themed = () => {
    const theme = root.dataset.theme === "dark" ? "dark" : "light";
    if (!main || get("theme") === theme) return;
    model.set("theme", theme);
    model.save_changes();
  };
  const stopTheme = watchTheme(root, themed);
  themed();
  const events = WATCHED.map((name) => [`change:${name}`, () => guarded(paint)]);
  for (const [event, act] of events) model.on(event, act);
  const timer = setInterval(tick, TICK);
  guarded(paint);
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
