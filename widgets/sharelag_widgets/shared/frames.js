// When to paint: once a frame, for views of any kind.

/** At most one repaint a frame, however often it is asked for; an error goes to `failed`. */
export function eachFrame(paint, failed) {
  let scheduled = 0;
  const later = () => {
    scheduled ||= requestAnimationFrame(() => {
      scheduled = 0;
      try {
        paint();
      } catch (error) {
        failed(error);
      }
    });
  };
  later.stop = () => cancelAnimationFrame(scheduled);
  return later;
}
