// Which of many rows are visible; without DOM.

/** The rows to make, of `total` rows of one height: those in sight and a few more on either side. */
export function inSight(top, height, rowHeight, total, more = 8) {
  const first = Math.max(0, Math.floor(top / rowHeight) - more);
  const end = Math.min(total, Math.ceil((top + height) / rowHeight) + more);
  return { first: Math.min(first, end), end };
}
