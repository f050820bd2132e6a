// Assignments after edits, their layout in lines, and differences; without DOM.

/** `0-2,7` as [0, 1, 2, 7]. */
export function numbersIn(text) {
  return text.split(",").filter(Boolean).flatMap((part) => {
    const [first, last = first] = part.split("-").map(Number);
    return Array.from({ length: last - first + 1 }, (_, n) => first + n);
  });
}

/** Numbers as ranges: `0-2,7`. */
export function asRanges(numbers, between = ",") {
  const ranges = [];
  for (const one of [...numbers].sort((a, b) => a - b)) {
    const last = ranges.at(-1);
    if (last && one <= last[1] + 1) last[1] = one;
    else ranges.push([one, one]);
  }
  return ranges.map(([first, last]) => (first === last ? String(first) : `${first}-${last}`)).join(between);
}

const DO = {
  assign: (held, { rows, to }) => give(held, numbersIn(rows), to),
  take: (held, { rows, from }) => drop(held, numbersIn(rows), from),
  move: (held, { rows, from, to }) => {
    if (!held.has(to)) return;
    drop(held, numbersIn(rows), from);
    give(held, numbersIn(rows), to);
  },
  add: (held, { member }) => held.has(member) || held.set(member, new Set()),
  remove: (held, { member }) => held.delete(member),
  set: (held, { all }) => {
    for (const member of held.keys()) held.set(member, new Set());
    for (const [member, rows] of Object.entries(all)) if (held.has(member)) held.set(member, new Set(numbersIn(rows)));
  },
};

/** The rows of each member after the first `at` edits; `assignment_editor.py` does the same. */
export function folded(base, edits, at) {
  let held = copied(base);
  for (const edit of edits.slice(0, at)) {
    if (edit.do === "reset") held = copied(base);
    else DO[edit.do](held, edit);
  }
  return held;
}

function copied(base) {
  return new Map(Array.from(base, ([member, rows]) => [member, new Set(rows)]));
}

function give(held, rows, to) {
  for (const row of rows) held.get(to)?.add(row);
}

// From one member, or (null) from all.
function drop(held, rows, from) {
  for (const [member, has] of held) if (from === null || from === member) for (const row of rows) has.delete(row);
}

/** The number of members of each row. */
export function holdersOf(held, count) {
  const holders = new Uint16Array(count);
  for (const rows of held.values()) for (const row of rows) holders[row] += 1;
  return holders;
}

/** Changes to the initial assignment: pairs of a member and a row, and members. */
export function changesOf(base, held) {
  const beyond = (some, others) => Array.from(some, ([member, rows]) => [...rows].filter((row) => !others.get(member)?.has(row)).length).reduce((a, b) => a + b, 0);
  return {
    added: beyond(held, base), taken: beyond(base, held),
    joined: [...held.keys()].filter((member) => !base.has(member)), left: [...base.keys()].filter((member) => !held.has(member)),
  };
}

/** Rows without a member first (name null), then a group per member; each word of a filter is in the member's or the row's name. */
export function groupsOf(held, labels, filter) {
  const wanted = filter.toLocaleLowerCase().split(/\s+/).filter(Boolean);
  const has = (text) => wanted.map((word) => text.toLocaleLowerCase().includes(word));
  const hits = wanted.length ? labels.map(has) : [];
  const holders = holdersOf(held, labels.length);
  const group = (name, rows) => {
    const mine = wanted.length ? has(name ?? "") : [];
    const kept = wanted.length ? rows.filter((row) => wanted.every((_, n) => mine[n] || hits[row][n])) : rows;
    return { name, rows: kept, all: rows.length, seen: kept.length > 0 || mine.every(Boolean) };
  };
  const alone = labels.map((_, row) => row).filter((row) => holders[row] === 0);
  const groups = Array.from(held, ([name, rows]) => group(name, [...rows].sort((a, b) => a - b)));
  return [group(null, alone), ...groups.filter(({ seen }) => seen)];
}

/** Lines of one height: their member, and the first row of each. With `apart`, names have their own line. */
export function linesOf(groups, perLine, apart) {
  const [group, first, starts] = [[], [], []];
  groups.forEach(({ rows }, number) => {
    starts.push(group.length);
    if (apart) [group[group.length], first[first.length]] = [number, -1];
    for (let row = 0; row < rows.length || (row === 0 && !apart); row += perLine) {
      group.push(number);
      first.push(row);
    }
  });
  return { group, first, starts, perLine, apart, total: group.length };
}

/** The line of a place: a group and a position in it, -1 is its name. */
export function lineAt({ starts, perLine, apart }, { group, position }) {
  return starts[group] + (position < 0 ? 0 : Math.floor(position / perLine) + (apart ? 1 : 0));
}

/** The place that a key moves to. */
export function stepped(groups, perLine, { group, position }, key) {
  const last = groups.length - 1;
  const at = (to, place) => {
    const within = Math.max(0, Math.min(last, to));
    return { group: within, position: Math.max(-1, Math.min(groups[within].rows.length - 1, place)) };
  };
  const column = position % perLine;
  if (key === "Home") return at(0, -1);
  if (key === "End") return at(last, Infinity);
  if (key === "PageUp") return at(group - 5, -1);
  if (key === "PageDown") return at(group + 5, -1);
  if (key === "ArrowLeft") return position >= 0 ? at(group, position - 1) : group > 0 ? at(group - 1, Infinity) : at(0, -1);
  if (key === "ArrowRight") return position < groups[group].rows.length - 1 ? at(group, position + 1) : group < last ? at(group + 1, -1) : at(group, position);
  if (key === "ArrowDown") {
    if (position >= 0 && Math.floor(position / perLine) < Math.floor((groups[group].rows.length - 1) / perLine)) return at(group, position + perLine);
    return group < last ? at(group + 1, position < 0 ? -1 : column) : at(group, position);
  }
  if (position >= perLine) return at(group, position - perLine);
  if (group === 0) return at(0, position);
  const count = groups[group - 1].rows.length;
  return at(group - 1, position < 0 || count === 0 ? -1 : Math.floor((count - 1) / perLine) * perLine + column);
}

/** An unused name. */
export function freshName(names) {
  for (let number = names.length; ; number++) if (!names.includes(`member-${number}`)) return `member-${number}`;
}

/** The judgement of a changed measure: better, worse, same, unclear (the seeds disagree), or nothing. */
export function verdictOf({ baseline, edited, low, high, better, unknown, verdict }) {
  if (verdict) return verdict;
  if (!better) return "";
  if (baseline === null || edited === null) {
    if (baseline === edited) return unknown ? "same" : "";
    return unknown ? (baseline === null ? "better" : "worse") : "";
  }
  const [from, to] = [low ?? edited - baseline, high ?? edited - baseline];
  if (from === 0 && to === 0) return "same";
  if (from * to < 0) return "unclear";
  return (from + to > 0) === (better === "more") ? "better" : "worse";
}
