import assert from "node:assert/strict";
import { test } from "node:test";

import { asRanges, changesOf, folded, freshName, groupsOf, holdersOf, lineAt, linesOf, numbersIn, stepped, verdictOf } from "../sharelag_widgets/editor_math.js";

const BASE = new Map([["a", new Set([0, 1, 2])], ["b", new Set([2, 3])]]);
const LABELS = ["orders-0", "orders-1", "orders-2", "refunds-0", "refunds-1"];
const plain = (held) => Object.fromEntries(Array.from(held, ([member, rows]) => [member, [...rows].sort((x, y) => x - y)]));
const after = (...edits) => plain(folded(BASE, edits, edits.length));

test("ranges are numbers and back", () => {
  assert.deepEqual(numbersIn("0-2,7"), [0, 1, 2, 7]);
  assert.deepEqual(numbersIn(""), []);
  assert.equal(asRanges([7, 0, 2, 1]), "0-2,7");
  assert.equal(asRanges([1, 2, 4], ", "), "1-2, 4");
  const some = Array.from({ length: 500 }, (_, n) => (n * n) % 641);
  assert.deepEqual(numbersIn(asRanges(some)), [...new Set(some)].sort((x, y) => x - y));
});

test("every edit does what it is called, and what is not there changes nothing", () => {
  assert.deepEqual(after({ do: "move", rows: "0-1", from: "a", to: "b" }), { a: [2], b: [0, 1, 2, 3] });
  assert.deepEqual(after({ do: "move", rows: "2", from: null, to: "a" }), { a: [0, 1, 2], b: [3] });
  assert.deepEqual(after({ do: "assign", rows: "4", to: "a" }), { a: [0, 1, 2, 4], b: [2, 3] });
  assert.deepEqual(after({ do: "take", rows: "2", from: "b" }), { a: [0, 1, 2], b: [3] });
  assert.deepEqual(after({ do: "take", rows: "2", from: null }), { a: [0, 1], b: [3] });
  assert.deepEqual(after({ do: "add", member: "c" }, { do: "assign", rows: "0", to: "c" }), { a: [0, 1, 2], b: [2, 3], c: [0] });
  assert.deepEqual(after({ do: "add", member: "a" }), { a: [0, 1, 2], b: [2, 3] });
  assert.deepEqual(after({ do: "remove", member: "a" }), { b: [2, 3] });
  assert.deepEqual(after({ do: "set", all: { a: "4", z: "1" } }), { a: [4], b: [] });
  assert.deepEqual(after({ do: "remove", member: "a" }, { do: "reset" }), plain(BASE));
  assert.deepEqual(after({ do: "move", rows: "0", from: "a", to: "z" }, { do: "assign", rows: "0", to: "z" }), plain(BASE));
});

test("only so many edits hold, and what it began with stays as it was", () => {
  const edits = [{ do: "remove", member: "a" }, { do: "remove", member: "b" }];
  assert.deepEqual([0, 1, 2].map((at) => [...folded(BASE, edits, at).keys()]), [["a", "b"], ["b"], []]);
  assert.deepEqual(plain(BASE), { a: [0, 1, 2], b: [2, 3] });
});

test("what changed is counted in pairs and members", () => {
  const held = folded(BASE, [{ do: "move", rows: "0", from: "a", to: "b" }, { do: "add", member: "c" }, { do: "remove", member: "a" }], 3);
  assert.deepEqual(changesOf(BASE, held), { added: 1, taken: 3, joined: ["c"], left: ["a"] });
  assert.deepEqual([...holdersOf(BASE, 5)], [1, 1, 2, 1, 0]);
});

test("a filter keeps members by their name and partitions by theirs; who has no member stays in sight", () => {
  const found = (filter) => groupsOf(BASE, LABELS, filter).map(({ name, rows, all }) => [name, rows, all]);
  assert.deepEqual(found(""), [[null, [4], 1], ["a", [0, 1, 2], 3], ["b", [2, 3], 2]]);
  assert.deepEqual(found("REFUNDS"), [[null, [4], 1], ["b", [3], 2]]);
  assert.deepEqual(found("b refunds"), [[null, [], 1], ["b", [3], 2]]);
  assert.deepEqual(found("a orders-2"), [[null, [], 1], ["a", [2], 3]]);
  assert.deepEqual(found("nobody"), [[null, [], 1]]);
});

test("a line has so many partitions, and everybody has a line", () => {
  const groups = [{ rows: [] }, { rows: [0, 1, 2, 3, 4] }, { rows: [5] }];
  const beside = linesOf(groups, 2, false);
  assert.deepEqual([beside.group, beside.first, beside.starts, beside.total], [[0, 1, 1, 1, 2], [0, 0, 2, 4, 0], [0, 1, 4], 5]);
  const apart = linesOf(groups, 2, true);
  assert.deepEqual([apart.group, apart.first, apart.starts], [[0, 1, 1, 1, 1, 2, 2], [-1, -1, 0, 2, 4, -1, 0], [0, 1, 5]]);
  assert.deepEqual([-1, 0, 1, 4].map((position) => lineAt(beside, { group: 1, position })), [1, 1, 1, 3]);
  assert.deepEqual([-1, 0, 4].map((position) => lineAt(apart, { group: 1, position })), [1, 2, 4]);
});

test("keys lead everywhere and never out", () => {
  const groups = [{ rows: [] }, { rows: [0, 1, 2, 3, 4] }, { rows: [5] }];
  const walk = (from, ...names) => { const { group, position } = names.reduce((at, key) => stepped(groups, 2, at, key), { group: from[0], position: from[1] }); return [group, position]; };
  assert.deepEqual(walk([0, -1], "ArrowUp"), [0, -1]);
  assert.deepEqual(walk([0, -1], "ArrowRight"), [1, -1]);
  assert.deepEqual(walk([1, -1], "ArrowRight", "ArrowRight", "ArrowDown"), [1, 3]);
  assert.deepEqual(walk([1, 3], "ArrowDown"), [1, 4]);
  assert.deepEqual(walk([1, 4], "ArrowDown"), [2, 0]);
  assert.deepEqual(walk([2, 0], "ArrowUp"), [1, 4]);
  assert.deepEqual(walk([2, 0], "ArrowRight"), [2, 0]);
  assert.deepEqual(walk([2, 0], "ArrowLeft", "ArrowLeft"), [1, 4]);
  assert.deepEqual(walk([1, 1], "ArrowUp"), [0, -1]);
  assert.deepEqual(walk([1, 1], "End"), [2, 0]);
  assert.deepEqual(walk([2, 0], "Home"), [0, -1]);
  for (const key of ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "PageUp", "PageDown", "Home", "End"]) {
    groups.forEach(({ rows }, group) => {
      for (let position = -1; position < rows.length; position++) {
        const to = stepped(groups, 2, { group, position }, key);
        assert.ok(to.group >= 0 && to.group < 3 && to.position >= -1 && to.position < groups[to.group].rows.length, `${key} ${group} ${position}`);
      }
    });
  }
});

test("a new name is nobody's", () => {
  assert.equal(freshName([]), "member-0");
  assert.equal(freshName(["x", "member-2"]), "member-3");
});

test("better and worse are said only where all seeds agree", () => {
  const of = (more) => verdictOf({ baseline: 10, edited: 8, low: null, high: null, better: "less", unknown: "", ...more });
  assert.equal(of({}), "better");
  assert.equal(of({ better: "more" }), "worse");
  assert.equal(of({ edited: 10 }), "same");
  assert.equal(of({ low: -3, high: 1 }), "unclear");
  assert.equal(of({ low: -3, high: 0 }), "better");
  assert.equal(of({ better: "" }), "");
  assert.equal(of({ baseline: null, unknown: "not drained" }), "better");
  assert.equal(of({ edited: null, unknown: "not drained" }), "worse");
  assert.equal(of({ baseline: null, edited: null, unknown: "not drained" }), "same");
  assert.equal(of({ edited: null }), "");
  assert.equal(of({ verdict: "unclear" }), "unclear");
});
