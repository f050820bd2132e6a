// When to paint: once a frame, for views of any kind.

/** At most one repaint a frame, however often it is asked for; an error goes to `failed`. */
export function eachFrame(paint, failed) {
  let asked = 0;
  const later = () => {
    asked ||= requestAnimationFrame(() => {
      asked = 0;
      try {
        paint();
      } catch (error) {
        failed(error);
      }
    });
  };
  later.stop = () => cancelAnimationFrame(asked);
  return later;
}
