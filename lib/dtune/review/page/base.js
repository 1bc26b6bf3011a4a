"use strict";
// Elements of the page, and numbers and times as people read them. All texts go
// in as text nodes: what a study's names hold is never taken for HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) {
      node.setAttribute(name, value);
    }
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined) node.append(child);
  }
  return node;
}

function html(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

function svg(name, attributes, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

// "0.9123", "12.3", "1.2e-5"; "" for null.
function numberText(value, digits = 4) {
  if (value === null || value === undefined) return "";
  if (typeof value !== "number") return String(value);
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-3) {
    return value.toExponential(2).replace(/\.?0+e/, "e").replace("e+", "e");
  }
  if (Number.isInteger(value)) return countText(value);
  return String(Number(value.toPrecision(digits)));
}

function countText(value) {
  return value.toLocaleString("en-US");
}

// "45 s", "3 min 12 s", "2 h 5 min".
function secondsText(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 1) return `${Number(seconds.toPrecision(2))} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${Number(seconds.toPrecision(3))} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} min ${whole % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

function plural(count, word) {
  return `${countText(count)} ${word}${count === 1 ? "" : "s"}`;
}

// The smallest and the largest of the finite values; null without any. Loops
// over as many values as there are: spreading them would overflow the stack.
function extent(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (value === null || !Number.isFinite(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? [low, high] : null;
}

function quantile(sorted, share) {
  if (sorted.length === 0) return null;
  const at = Math.round(share * (sorted.length - 1));
  return sorted[at];
}

// The place of the one with the smallest cost, -1 without any.
function cheapest(count, cost) {
  let best = -1, least = Infinity;
  for (let i = 0; i < count; ++i) {
    const now = cost(i);
    if (now < least) {
      least = now;
      best = i;
    }
  }
  return best;
}
