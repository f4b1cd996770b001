// Numbers, durations, times and states as texts.

import { h, s } from "./dom.js";

const whole = new Intl.NumberFormat("en");

export const number = (value) => (value === null || value === undefined ? "–" : whole.format(value));
export const rate = (value) => (value === null || value === undefined ? "–" : `${value < 10 ? value.toFixed(1) : whole.format(Math.round(value))}/s`);

export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(1).replace(/\.0$/, "")} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

const two = (value) => String(value).padStart(2, "0");
export const day = (ms) => { const at = new Date(ms); return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`; };
export const clock = (ms) => { const at = new Date(ms); return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`; };
export const minute = (ms) => `${day(ms)}T${clock(ms).slice(0, 5)}`;
export const ago = (ms, now) => `${duration(Math.max(now - ms, 0))} ago`;

const KINDS = { Stable: "good", Empty: "", Dead: "" };
export const badge = (state) => h("span", { class: `badge ${KINDS[state] ?? "warn"}` }, state || "unknown");

export function spark(values) {
  if (values.length < 2) return null;
  const top = Math.max(...values, 1);
  const points = values.map((value, index) => `${(index * 88) / (values.length - 1) + 1},${21 - (value * 20) / top}`);
  return s("svg", { class: "spark", viewBox: "0 0 90 22", role: "img", "aria-label": `lag from ${number(values[0])} to ${number(values.at(-1))}` },
    s("path", { d: `M${points.join("L")}` }));
}

export const catchUp = (row) => (!row.lag ? "all read" : row.catch_up_s === null ? "–" : duration(row.catch_up_s * 1000));

export function ranges(numbers) {
  const parts = [];
  const ordered = [...numbers].sort((a, b) => a - b);
  for (let start = 0, index = 1; index <= ordered.length; index += 1) {
    if (index === ordered.length || ordered[index] !== ordered[index - 1] + 1) {
      parts.push(start === index - 1 ? `${ordered[start]}` : `${ordered[start]}-${ordered[index - 1]}`);
      start = index;
    }
  }
  return parts.join(",");
}

export function owned(assignment) {
  if (assignment === null || assignment === undefined) return "not partitions";
  const rows = Array.isArray(assignment) ? assignment.map((one) => [one.topic, one.partitions]) : Object.entries(assignment);
  return rows.map(([topic, partitions]) => `${topic}:${ranges(partitions)}`).join(" ") || "no partitions";
}

export const short = (member) => {
  if (/^[A-Za-z0-9+/_-]{22}$/.test(member)) return `${member.slice(0, 8)}…`;
  const uuid = member.slice(-36);
  return member.length > 36 && uuid.split("-").length === 5 ? `${member.slice(0, -37)}-${uuid.slice(0, 8)}…` : member;
};
