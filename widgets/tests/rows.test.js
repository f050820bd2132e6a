import assert from "node:assert/strict";
import { test } from "node:test";

import { holding, pickedRows, sortedBy } from "../sharelag_widgets/shared/rows.js";
import { inSight } from "../sharelag_widgets/shared/sight.js";
import { csv, csvLine, longestTexts, longestWord, spared, widths } from "../sharelag_widgets/table_math.js";

const all = (length) => Uint32Array.from({ length }, (_, n) => n);
const texts = (values, distinct) => ({ values: Int32Array.from(values), texts: distinct, kind: "text" });
const numbers = (...values) => ({ values: Float64Array.from(values), kind: "number" });

test("sorting: numbers, texts as people count, unknown last either way, ties as they were", () => {
  const lag = numbers(5, NaN, 7, 5);
  assert.deepEqual([...sortedBy(lag, all(4), true)], [2, 0, 3, 1]);
  assert.deepEqual([...sortedBy(lag, all(4), false)], [0, 3, 2, 1]);
  const topic = texts([0, 1, -1, 2], ["orders-10", "orders-9", "Orders-1"]);
  assert.deepEqual([...sortedBy(topic, all(4), false)], [3, 1, 0, 2]);
  assert.deepEqual([...sortedBy(topic, Uint32Array.from([3, 2, 1, 0]), true)], [0, 1, 3, 2]);
});

test("a filter keeps rows that hold every word, in any column, whatever the case", () => {
  const columns = { group: texts([0, 1, -1], ["Payments", "audit"]), topic: texts([0, 0, 1], ["orders", "<img>"]), lag: numbers(1, 2, 3) };
  const found = (filter) => [...holding(columns, ["group", "topic", "lag"], all(3), filter)];
  assert.deepEqual(found(""), [0, 1, 2]);
  assert.deepEqual(found("pay ORD"), [0]);
  assert.deepEqual(found("<IMG"), [2]);
  assert.deepEqual(found("nothing"), []);
});

test("only the rows in sight are made, at any length", () => {
  assert.deepEqual(inSight(0, 300, 30, 1_000_000, 8), { first: 0, end: 18 });
  assert.deepEqual(inSight(29_999_700, 300, 30, 1_000_000, 8), { first: 999_982, end: 1_000_000 });
  assert.deepEqual(inSight(99_999, 300, 30, 5), { first: 5, end: 5 });
});

test("CSV: names, unknown is empty, quotes are doubled, formulas are text, times are ISO 8601", () => {
  const columns = { topic: texts([0, 1, -1], ['=cmd|" /C calc"!A0', "a,b\nc"]), lag: numbers(1234567, NaN, 0.5), at: { values: Float64Array.from([0, NaN, 1500]), kind: "time" } };
  assert.equal(csv(columns, ["topic", "lag", "at"], [0, 1, 2]),
    'topic,lag,at\n"\'=cmd|"" /C calc""!A0",1234567,1970-01-01T00:00:00.000Z\n"a,b\\nc",,\n,0.5,1970-01-01T00:00:01.500Z\n');
  // The same first characters as in what commands print (sharelag/tables/lines.py).
  for (const first of "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20") assert.match(csvLine([`${first}1`]), /^"?'/);
});

test("CSV cells that would run are text", () => {
  assert.equal(csvLine(["=1", "+1", "-1", "@x", "\ta", -1, null, "plain"]), "'=1,'+1,'-1,'@x,'\\ta,-1,,plain");
});

test("widths hold the longest of a column, and no name is let to take it all", () => {
  const columns = { name: texts([0], ["x".repeat(300)]), lag: numbers(1, 123456789) };
  assert.deepEqual(widths(columns, ["name", "lag"], ["Name", "Lag"]), [34, 11]);
});

test("a heading in several lines is as wide as its longest word", () => {
  assert.deepEqual(["Effective start offset", "Lag", "\u00c4lteste im Fenster", ""].map(longestWord), ["Effective", "Lag", "\u00c4lteste", ""]);
});

test("what is picked here is told once; what is heard is shown and not told again", () => {
  const state = { picked: null };
  const told = [];
  const model = { get: (name) => state[name], set: (name, value) => (state[name] = value) };
  const link = { tell: (traits, picked) => (Object.assign(state, traits), told.push(picked)) };
  const picks = pickedRows(model, link);
  const columns = { _key: texts([0, 1, 0], ["a", "b"]) };
  picks.load(columns);
  picks.pick([2, 1], columns);
  assert.deepEqual([[...picks.rows()], told, picks.elsewhere], [[1, 2], [{ keys: ["a", "b"] }], false]);
  picks.hear({ keys: ["a"] });
  assert.deepEqual([[...picks.rows()], told.length, picks.elsewhere, picks.missing], [[0, 2], 1, true, false]);
  picks.hear({ keys: ["c"] });
  assert.deepEqual([[...picks.rows()], picks.elsewhere, picks.missing], [[], false, true]);
  picks.hear({ moment: 5 });
  assert.equal(picks.missing, true);
});

test("columns that may be left out are, one after the other, until the others fit", () => {
  const names = ["group", "lag", "in", "out"];
  const needed = [100, 50, 40, 40];
  assert.deepEqual(spared(names, needed, 230, ["out", "in"]), []);
  assert.deepEqual(spared(names, needed, 229, ["out", "in"]), ["out"]);
  assert.deepEqual(spared(names, needed, 100, ["missing", "out", "in"]), ["out", "in"]);
  assert.deepEqual(spared(names, needed, 0, ["out"]), []); // not shown yet
});

test("the widest of a column is among what is measured", () => {
  assert.equal(longestTexts({ texts: ["a", "abc", "ab"] }, "name")[0], "abc");
  const values = Float64Array.from({ length: 1000 }, (_, n) => (n === 900 ? 1_234_567 : 1));
  assert.ok(longestTexts({ values, kind: "number" }, "lag").includes("1,234,567"));
  assert.deepEqual(longestTexts({ values: new Float64Array(), kind: "number" }, "lag"), []);
});
