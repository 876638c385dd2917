// Scales of charts: values to pixels, round ticks, numbers as text and the width of text.

/** Linear scale from values to pixels. Its ticks are whole numbers if `isWhole` is true. */
export function linearScale([low, high], [from, to], isWhole = false) {
  const span = high - low || 1;
  const scale = (value) => from + ((value - low) / span) * (to - from);
  scale.inverse = (place) => low + ((place - from) / (to - from)) * span;
  scale.ticks = (most) => roundTicks([low, high], most, isWhole);
  return scale;
}

/** Logarithmic scale from positive values to pixels. */
export function logScale([low, high], range) {
  const linear = linearScale([Math.log10(low), Math.log10(high)], range);
  const scale = (value) => linear(Math.log10(value));
  scale.inverse = (place) => 10 ** linear.inverse(place);
  scale.ticks = (most) => logTicks([low, high], most);
  return scale;
}

function roundTicks([low, high], most, isWhole) {
  const rough = Math.max((high - low || 1) / most, isWhole ? 1 : 0);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough * (1 - 1e-9));
  const first = Math.ceil(low / step - 1e-9);
  const count = Math.max(0, Math.floor(high / step + 1e-9) - first + 1);
  return Array.from({ length: count }, (_, number) => (first + number) * step);
}

/** Powers of ten, with multiples of them if there is room; usually at least two values. */
function logTicks([low, high], most) {
  const powers = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) powers.push(power);
  for (const factors of [[1, 2, 5], [1, 3], [1]]) {
    const values = powers.flatMap((power) => factors.map((factor) => factor * 10 ** power));
    const inside = values.filter((value) => value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9));
    if (inside.length >= 2 && inside.length <= most) return inside;
  }
  const ticks = roundTicks([low, high], Math.max(2, most), false).filter((value) => value > 0);
  const every = Math.ceil(powers.length / most);
  return powers.length > most ? powers.filter((_, i) => i % every === 0).map((power) => 10 ** power) : ticks;
}

/** Number with at most `digits` significant digits, in groups of three. */
export function format(value, digits = 4) {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e9)) return value.toExponential(2).replaceAll("-", "−");
  const rounded = size >= 10 ** digits ? Math.round(value) : Number(value.toPrecision(digits));
  return rounded.toLocaleString("en", { maximumFractionDigits: 8 }).replace("-", "−");
}

/** Labels of ticks; thousands and millions are shortened if all ticks are that large. */
export function tickLabels(values) {
  const sizes = values.map(Math.abs).filter(Boolean);
  const [least, most] = [Math.min(...sizes), Math.max(...sizes)];
  const [unit, sign] = most >= 1e6 && least >= 1e5 ? [1e6, "M"] : most >= 1e4 && least >= 1e3 ? [1e3, "k"] : [1, ""];
  return values.map((value) => (value === 0 || sign === "" ? format(value, 6) : `${format(value / unit, 6)}${sign}`));
}

const pen = document.createElement("canvas").getContext("2d");

/** Width of text in the charts' font, in pixels. */
export function textWidth(text) {
  pen.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
}
