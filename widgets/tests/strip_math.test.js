import assert from "node:assert/strict";
import { test } from "node:test";

import { FINISHED, KINDS, OTHER, UNKNOWN, UNREAD, WINDOW } from "../sharelag_widgets/shared/palette.js";
import { countsOf, extent, heights, isLast, lastBefore, lastCount, panned, pieceAt, piecesOf, stacks, ticks, zoomed } from "../sharelag_widgets/strip_math.js";
import { cursorWords, offsetIn, spotWords } from "../sharelag_widgets/strip_words.js";

const column = (values) => ({ values });

/** One moment: runs as first, length, state, count, relative to the start offset. */
function moment({ start = 100, head = 103, windowEnd = 120, end = 1120, runs = [], itemised = 1 }) {
  const of = (n) => column(runs.map((run) => run[n]));
  return {
    start: column([start]), head: column([head]), window_end: column([windowEnd]), end: column([end]), itemised: column([itemised]),
    runs_at: column([0, runs.length]), run_first: of(0), run_length: of(1), run_state: of(2), run_count: of(3),
  };
}

const list = (pieces) => Array.from({ length: pieces.size }, (_, n) => [pieces.first[n], pieces.end[n], pieces.kind[n], pieces.count[n]]);

test("pieces follow each other from start offset to end without a hole", () => {
  const pieces = piecesOf(moment({ runs: [[3, 2, 0, 3], [7, 6, 2, 1], [13, 1, 4, 5], [18, 2, 0, 1]] }), 0);
  assert.deepEqual(list(pieces), [
    [100, 103, FINISHED, 0], [103, 105, 0, 3], [105, 107, UNKNOWN, 0], [107, 113, 2, 1], [113, 114, 4, 5],
    [114, 118, UNKNOWN, 0], [118, 120, 0, 1], [120, 1120, UNREAD, 0],
  ]);
});

test("a start offset that is not known shows nothing, an end that is not known no tail", () => {
  assert.equal(piecesOf(moment({ start: NaN, head: NaN }), 0).size, 0);
  assert.deepEqual(list(piecesOf(moment({ head: 100, end: NaN }), 0)), [[100, 120, UNKNOWN, 0]]);
});

test("a window without runs in its table is one piece, a state of a newer Kafka is another state", () => {
  assert.deepEqual(list(piecesOf(moment({ head: 100, itemised: 0, end: 120 }), 0)), [[100, 120, WINDOW, 0]]);
  assert.equal(piecesOf(moment({ head: 100, runs: [[0, 1, 9, 1]] }), 0).kind[0], OTHER);
});

test("counts add up to the distance from start to end", () => {
  const counts = countsOf(piecesOf(moment({ runs: [[3, 2, 0, 3], [7, 6, 2, 1]] }), 0));
  assert.equal(counts.length, KINDS.length);
  assert.equal(counts.reduce((a, b) => a + b), 1020);
  assert.deepEqual([counts[0], counts[2], counts[UNREAD]], [2, 6, 1000]);
});

test("the piece of an offset", () => {
  const pieces = piecesOf(moment({ runs: [[3, 2, 0, 3]] }), 0);
  assert.deepEqual([99, 100, 102, 103, 104, 105, 1119, 1120].map((offset) => pieceAt(pieces, offset)), [-1, 0, 0, 1, 1, 2, 3, -1]);
});

test("columns say what is in them, and a single offset among thousands is still seen", () => {
  const pieces = piecesOf(moment({ start: 0, head: 0, windowEnd: 100_000, end: NaN, runs: [[50_000, 1, 0, 7]] }), 0);
  const { share, most } = stacks(pieces, 0, 100_000, 100);
  const kinds = KINDS.length;
  assert.equal(most[50], 7);
  assert.equal(most[49], 0);
  assert.ok(Math.abs(share[50 * kinds] - 1 / 1000) < 1e-6);
  assert.deepEqual([heights(share, 50, 58)[0], heights(share, 50, 58)[UNKNOWN]], [1, 57]);
  assert.deepEqual([heights(share, 49, 58)[0], heights(share, 49, 58)[UNKNOWN]], [0, 58]);
  for (let n = 0; n < 100; n++) {
    const sum = share.subarray(n * kinds, (n + 1) * kinds).reduce((a, b) => a + b);
    assert.ok(Math.abs(sum - 1) < 1e-4, `column ${n} is ${sum}`);
  }
});

test("what is outside of the span counts nowhere", () => {
  const pieces = piecesOf(moment({ start: 0, head: 0, windowEnd: 100, end: 200, runs: [[10, 10, 2, 1]] }), 0);
  const { share } = stacks(pieces, 15, 25, 10);
  const of = (kind) => Array.from({ length: 10 }, (_, n) => Math.round(share[n * KINDS.length + kind]));
  assert.deepEqual(of(2), [1, 1, 1, 1, 1, 0, 0, 0, 0, 0]);
  assert.deepEqual(of(UNKNOWN), [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]);
});

test("zooming keeps the place under the cursor and stays within what there is", () => {
  assert.deepEqual(zoomed([0, 100], 0.5, 25, [0, 100]), [12.5, 62.5]);
  assert.deepEqual(zoomed([0, 100], 4, 50, [0, 100]), [0, 100]);
  assert.deepEqual(zoomed([10, 14], 0.1, 12, [0, 100]), [10, 14]);
  let span = [0, 10_000_000];
  for (let n = 0; n < 60; n++) span = zoomed(span, 0.5, 7_654_321, [0, 10_000_000]);
  assert.ok(span[0] <= 7_654_321 && span[1] > 7_654_321 && span[1] - span[0] === 4, String(span));
  assert.deepEqual(panned([0, 10], 5, [0, 30]), [20, 30]);
  assert.deepEqual(panned([20, 30], -9, [0, 30]), [0, 10]);
});

test("ticks are round, within the span, and few enough to be read", () => {
  for (const [from, to] of [[0, 4], [100, 120], [999_987, 1_000_211], [0, 10_000_000]]) {
    const made = ticks(from, to, 900);
    assert.ok(made.length >= 2 && made.length <= 10, `${made}`);
    assert.ok(made.every((tick) => tick >= from && tick <= to && Number.isInteger(tick)));
  }
});

test("what to show: the window, all moments, the log", () => {
  const columns = { start: column([100, 200]), window_end: column([120, 260]), end: column([NaN, 1000]) };
  assert.deepEqual(extent(columns, "window", 0, [0, 1]), [100, 120]);
  assert.deepEqual(extent(columns, "moments", 0, [0, 1]), [100, 260]);
  assert.deepEqual(extent(columns, "log", 1, [0, 1]), [100, 1000]);
  assert.deepEqual(extent({ start: column([NaN]), window_end: column([0]), end: column([5]) }, "window", 0, [0]), [0, 1]);
});

test("the last moment that is not after another", () => {
  assert.deepEqual([5, 10, 19, 20, 99].map((at) => lastBefore([0, 10, 20, 30], 1, 4, at)), [0, 0, 0, 1, 2]);
});

test("what is looked at and what is picked: either, both, or neither", () => {
  const pieces = piecesOf(moment({ runs: [[3, 2, 0, 3]] }), 0);
  const under = "Offset 103: Available, delivery count 3; run 103 to 104";
  assert.equal(spotWords(pieces, null, []), "No offset chosen: use the arrow keys, or point at one.");
  assert.equal(spotWords(pieces, null, [20, 20]), "You picked 20.");
  assert.equal(spotWords(pieces, null, [1020, 1029]), "You picked 1020 to 1029.");
  assert.equal(spotWords(pieces, 103, []), under);
  assert.equal(spotWords(pieces, 103, [20, 20]), `${under} \u2014 picked 20`);
  assert.equal(spotWords(pieces, 103, [20, 29]), `${under} \u2014 picked 20 to 29`);
  assert.equal(cursorWords(pieces, 1119), "Offset 1119: Unread; run 120 to 1119");
  assert.equal(cursorWords(pieces, 5000), "Offset 5000: outside of the window and the log");
});

test("an offset that is typed, with whatever between its thousands", () => {
  const reach = [1_000_000, 2_000_000];
  for (const typed of ["1000050", " 1 000 050", "1,000,050", "1.000.050", "1_000_050", "1'000'050", "1\u202f000\u202f050 "]) {
    assert.deepEqual(offsetIn(typed, reach), { offset: 1_000_050 }, typed);
  }
  assert.deepEqual([offsetIn("1000000", reach), offsetIn("1999999", reach)], [{ offset: 1_000_000 }, { offset: 1_999_999 }]);
  const there = "1000000 to 1999999";
  for (const typed of ["", "  ", "abc", "-5", "1.5", "10 00", "1e6", "<img>"]) assert.deepEqual(offsetIn(typed, reach), { why: `Type an offset as a whole number, from ${there}.` }, typed);
  for (const typed of ["999999", "2000000", "99999999999999999999"]) assert.match(offsetIn(typed, reach).why, new RegExp(`is out of range: at this moment there are ${there}\\.$`));
});

test("an available offset one delivery below the limit is on its last delivery, others are not", () => {
  const pieces = piecesOf(moment({ runs: [[3, 2, 0, 3], [5, 3, 0, 4], [8, 1, 4, 5], [10, 2, 0, 5]] }), 0);
  const marked = (limit) => list(pieces).filter((_, n) => isLast(pieces, n, limit)).map(([first]) => first);
  assert.deepEqual([5, 4, 6, null, undefined].map(marked), [[105, 110], [103, 105, 110], [110], [], []]);
  assert.deepEqual([5, 6, null].map((limit) => lastCount(pieces, limit)), [5, 2, 0]);
  assert.deepEqual([...stacks(pieces, 100, 120, 4, 5).last], [0, 1, 1, 0]);
  assert.deepEqual([...stacks(pieces, 100, 120, 4).last], [0, 0, 0, 0]);
  assert.match(cursorWords(pieces, 105, 5), /delivery count 4 of 5, next delivery is the last; run 105 to 107/);
  assert.match(cursorWords(pieces, 103, 5), /delivery count 3; run/);
});
