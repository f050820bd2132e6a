// How old is what is shown? Said in steps, so that it does not change all the time.

import { unitsOf } from "../shared/format.js";

/** Milliseconds as 35 s, 10m, 2h 5m. */
export function age(milliseconds) {
  const seconds = milliseconds / 1000;
  if (seconds < 60) return `${5 * Math.floor(seconds / 5)} s`;
  return unitsOf(60 * Math.floor(seconds / 60)).join(" ");
}
