// A shape for each state, so that none is told by its colour alone. All in a square of 24.
export const SHAPES = {
  policy: '<path d="M5 3 21 12 5 21z"/>',
  human: '<circle cx="12" cy="6" r="4.5"/><path d="M3 22c0-7 4-10 9-10s9 3 9 10z"/>',
  hold: '<path d="M5 3h5v18H5zM14 3h5v18h-5z"/>',
  asks: '<path d="M12 2a7 7 0 0 1 7 7c0 4-4 5-4 8H9.5c0-5 4.5-5.5 4.5-8a2 2 0 0 0-4 0H5a7 7 0 0 1 7-7z"/><path d="M9.5 19h5v4h-5z"/>',
  stop: '<path d="M8 2h8l6 6v8l-6 6H8l-6-6V8z"/><path d="M6 12h12" stroke="#7d0012" stroke-width="4"/>',
  ready: '<path d="M12 2 22 12 12 22 2 12z" fill="none" stroke-width="3"/>',
  disarmed: '<circle cx="12" cy="12" r="9" fill="none" stroke-width="3"/><path d="M5.6 18.4 18.4 5.6" stroke-width="3"/>',
  silent: '<path d="M12 2 23 21H1z"/><path d="M12 9v6M12 17v2" stroke="#ffe14d" stroke-width="2.4"/>',
};
SHAPES.lost = SHAPES.silent;
SHAPES.over = '<path d="M3 3h18v3H3zM3 18h18v3H3zM6 6h12L13 12l5 6H6l5-6z"/>';
SHAPES.ended = '<path d="M2 13 9 20 22 5" fill="none" stroke-width="4"/>';
SHAPES.failed = '<path d="M4 4 20 20M20 4 4 20" fill="none" stroke-width="4"/>';

export const OUTCOMES = {
  success: '<path d="M2 13 9 20 22 5" fill="none" stroke="currentColor" stroke-width="4"/>',
  failure: '<path d="M4 4 20 20M20 4 4 20" fill="none" stroke="currentColor" stroke-width="4"/>',
  discard: '<circle cx="12" cy="12" r="9" fill="none" stroke="currentColor" stroke-width="3"/><path d="M5 19 19 5" stroke="currentColor" stroke-width="3"/>',
  open: '<circle cx="12" cy="12" r="8"/>',
  none: '<path d="M3 12h18" stroke="currentColor" stroke-width="4"/>',
};

export function svg(inside) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  element.setAttribute("viewBox", "0 0 24 24");
  element.setAttribute("aria-hidden", "true");
  element.innerHTML = inside;  // only ever text of this file
  return element;
}
