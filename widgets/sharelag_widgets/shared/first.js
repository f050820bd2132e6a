// Binary search among ascending numbers; without DOM.

/** The first of `count` numbers from 0 on for which something holds that also holds for all after it; `count` if none. */
export function firstOf(count, holds) {
  let [low, high] = [0, count];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
