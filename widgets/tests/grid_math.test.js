import assert from "node:assert/strict";
import { test } from "node:test";

import { beside, bounds, cellAt, cellsIn, layout, placeOf, stepOf } from "../sharelag_widgets/grid_math.js";
import { fitting } from "../sharelag_widgets/grid_picture.js";

test("steps are round, rise, and none is empty by its bounds", () => {
  assert.deepEqual(bounds([0, 1, 10, 100, 1000, 10_000, 100_000, 1_000_000]), [1, 10, 100, 1000, 10_000, 100_000]);
  assert.deepEqual(bounds([0, 5, 5]), [5]);
  assert.deepEqual(bounds([0, 0]), []);
  assert.deepEqual(bounds([NaN]), []);
  assert.deepEqual(bounds([0.3, 2.5]).every((bound, n, all) => n === 0 || bound > all[n - 1]), true);
  const below = bounds([-3, 4]);
  assert.equal(below.length, 6);
  assert.deepEqual(bounds([0, 40, 820]), [40, 66, 110, 180, 300, 500]);
  assert.deepEqual(bounds([381, 460]), [380, 390, 410, 420, 430, 450]);
  assert.deepEqual(bounds([0, 16, 803]), [10, 20, 50, 100, 200, 500].map((bound, n) => (n ? bound : 10)));
  assert.ok(below[0] > -3 && below[5] < 4);
});

test("a name that is too long loses its middle, and no letter in two", () => {
  const pen = { measureText: (text) => ({ width: 7 * [...text].length }) };
  assert.equal(fitting(pen, "billing", 49), "billing");
  assert.equal(fitting(pen, "payments-of-the-shop-eu", 77), "payme\u2026op-eu");
  const fire = fitting(pen, "\u{1f525}".repeat(40), 70);
  assert.ok([...fire].length <= 10 && fire.isWellFormed());
  assert.ok(fitting(pen, "billing", 0).length < 7);
});

test("the step of a value; what is not known has none", () => {
  const steps = [1, 10, 100];
  assert.deepEqual([0, 0.9, 1, 9, 10, 1e9, NaN].map((value) => stepOf(value, steps)), [0, 0, 1, 1, 2, 3, -1]);
});

test("every cell has a place of its own, found again by its point", () => {
  const bands = Int32Array.from({ length: 1000 }, (_, n) => Math.floor(n / 130));
  const made = layout(bands, 300, 400);
  const seen = new Set();
  for (let cell = 0; cell < 1000; cell++) {
    const [x, y] = placeOf(made, cell);
    seen.add(`${x} ${y}`);
    assert.equal(cellAt(made, x + 1, y + 1), cell);
  }
  assert.equal(seen.size, 1000);
  assert.equal(made.headings.length, 8);
  assert.equal(made.headings.reduce((sum, { cells }) => sum + cells, 0), 1000);
});

test("few cells are large, ten thousand still fit", () => {
  const plain = (length) => new Int32Array(length).fill(-1);
  assert.equal(layout(plain(20), 900, 440).pitch, 22);
  const many = layout(plain(10_000), 950, 520);
  assert.ok(many.pitch >= 8 && many.height <= 700, `${many.pitch} ${many.height}`);
  assert.equal(layout(plain(0), 900, 440).height, 0);
});

test("a rectangle picks what it touches", () => {
  const made = layout(new Int32Array(20).fill(-1), 100, 1000, { smallest: 10, largest: 10 });
  assert.deepEqual(cellsIn(made, [0, 0, 15, 15]), [0, 1, 10, 11]);
  assert.deepEqual(cellsIn(made, [95, 5, 99, 5.5]), [9]);
  assert.deepEqual(cellsIn(made, [-50, -50, 500, 500]).length, 20);
  assert.equal(cellAt(made, -1, 5), -1);
  assert.equal(cellAt(made, 5, 999), -1);
});

test("up and down keep the column, as far as lines are long enough", () => {
  const made = layout(Int32Array.from([0, 0, 0, 1]), 66, 1000, { smallest: 22 });
  assert.equal(beside(made, 2, 1), 3);
  assert.equal(beside(made, 3, -1), 0);
  assert.equal(beside(made, 0, -1), 0);
});

test("small bands stand side by side, and keys and the mouse find their way", () => {
  const bands = Int32Array.from([0, 0, 1, 1, 1, 2, 3, 3, 4]);
  const made = layout(bands, 400, 1000, { heading: 100 });
  assert.deepEqual(made.headings.map(({ x, y }) => [x > 0, y > 0]), [[false, false], [true, false], [true, false], [false, true], [true, true]]);
  assert.ok(made.headings.every(({ x, width }) => x + width <= 400));
  for (let cell = 0; cell < bands.length; cell++) {
    const [x, y] = placeOf(made, cell);
    assert.equal(cellAt(made, x + 1, y + 1), cell);
  }
  assert.equal(cellAt(made, placeOf(made, 1)[0] + 30, placeOf(made, 1)[1] + 1), -1); // between two bands
  assert.deepEqual([beside(made, 2, 1), beside(made, 8, -1), beside(made, 5, 1), beside(made, 0, -1)], [8, 2, 8, 0]);
  assert.deepEqual(cellsIn(made, [0, 0, 400, 30]), [0, 1, 2, 3, 4, 5]);
  assert.ok(layout(bands, 200, 1000, { heading: 100 }).height > made.height);
  assert.ok(layout(Int32Array.from({ length: 40 }, (_, n) => Number(n > 30)), 400, 1000, { heading: 100 }).headings.every(({ x }) => x === 0));
});
