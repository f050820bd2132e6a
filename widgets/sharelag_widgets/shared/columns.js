// Columns of a table as Python packed them (columns.py): a JSON head, then the numbers as they lie in memory.

const NUMBERS = {
  f64: Float64Array, i32: Int32Array, u32: Uint32Array, u16: Uint16Array, u8: Uint8Array,
};
const MAGIC = "SLC1";

/**
 * The columns in some bytes, by name.
 *
 * `values` is a typed array; NaN is unknown. A text column's values are indexes into `texts`, -1 is unknown.
 * @param {DataView | null} view
 * @returns {Promise<Record<string, {values: ArrayLike<number>, texts?: string[], kind: string}>>}
 */
export async function unpack(view) {
  if (!view || view.byteLength === 0) return {};
  const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
  if (String.fromCharCode(...bytes.subarray(0, 4)) !== MAGIC) {
    throw new Error("the data is of another version of sharelag: restart the kernel and run the cell again");
  }
  const body = bytes[4] ? await gunzip(bytes.subarray(8)) : bytes.slice(8);
  const length = new DataView(body.buffer, body.byteOffset).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(body.subarray(4, 4 + length)));
  const columns = {};
  for (const { name, type, at, length: count, texts, kind } of head) {
    columns[name] = { values: new NUMBERS[type](body.buffer, body.byteOffset + at, count), texts, kind };
  }
  return columns;
}

async function gunzip(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Is this value of this column not known? */
export function isUnknown(column, row) {
  const value = column.values[row];
  return column.texts ? value < 0 : Number.isNaN(value);
}

/** A text column's value, or null. */
export function textAt(column, row) {
  return column.texts[column.values[row]] ?? null;
}

/** Row numbers that crossed as bytes. */
export function rowNumbers(view) {
  if (!view || view.byteLength === 0) return new Uint32Array();
  return new Uint32Array(view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength));
}

/** Bytes of row numbers, ascending. */
export function rowBytes(rows) {
  return new DataView(Uint32Array.from(rows).sort().buffer);
}
