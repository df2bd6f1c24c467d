'use strict';
/* SPDX-License-Identifier: Apache-2.0 */
/* Elements, words for figures, and charts. */

/* h("p.small", {title: "x"}, "text", child): an element. */
function h(spec, properties, ...children) {
	const [tag, ...classes] = spec.split('.');
	const element = document.createElement(tag);
	if (classes.length)
		element.className = classes.join(' ');
	for (const [name, value] of Object.entries(properties || {})) {
		if (name.startsWith('on'))
			element.addEventListener(name.slice(2), value);
		else if (value !== null && value !== undefined && value !== false)
			element.setAttribute(name, value === true ? '' : value);
	}
	element.append(...children.filter((child) => child !== null && child !== undefined));
	return element;
}

function svg(tag, properties, ...children) {
	const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
	for (const [name, value] of Object.entries(properties || {}))
		element.setAttribute(name, value);
	element.append(...children);
	return element;
}

/* Writes only what is different: the browser then has nothing to do for what is not. */
function say(element, text) {
	if (element.said !== text) {
		element.said = text;
		element.textContent = text;
	}
}

function mark(element, name, value) {
	const text = value === false || value === null || value === undefined ? null : String(value === true ? '' : value);
	if (element.getAttribute(name) === text)
		return;
	if (text === null)
		element.removeAttribute(name);
	else
		element.setAttribute(name, text);
}

function wide(element, part) {
	const width = `${(100 * Math.max(0, Math.min(1, part || 0))).toFixed(1)}%`;
	if (element.part !== width) {
		element.part = width;
		element.style.width = width;
	}
}

const GIB = 2 ** 30, MIB = 2 ** 20;

function bytes(amount) {
	if (amount >= GIB)
		return `${(amount / GIB).toFixed(amount >= 100 * GIB ? 0 : 2)} GiB`;
	return amount >= 10 * 1024 || !amount ? `${(amount / MIB).toFixed(amount && amount < 10 * MIB ? 1 : 0)} MiB` : `${Math.ceil(amount / 1024)} KiB`;
}

function duration(ns) {
	const s = Math.floor(ns / 1e9);
	if (s < 60)
		return `${s} s`;
	if (s < 3600)
		return `${Math.floor(s / 60)} min`;
	if (s < 86400)
		return `${Math.floor(s / 3600)} h ${String(Math.floor(s / 60) % 60).padStart(2, '0')} min`;
	return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
}

/* As `mete ps` and `mete top` say it. */
function waited(ns) {
	return ns < 1e9 ? `${(ns / 1e6).toFixed(2)} ms` : `${(ns / 1e9).toFixed(1)} s`;
}

function watts(amount) {
	return amount < 10000 ? `${Math.round(amount)} W` : `${(amount / 1000).toFixed(1)} kW`;
}

function percent(part) {
	return `${Math.round(100 * (part || 0))} %`;
}

function clock(ms) {
	return new Date(ms).toLocaleTimeString([], { hour12: false });
}

/* Of today the time alone. */
function when(ms) {
	const day = new Date(ms);
	return day.toDateString() === new Date().toDateString() ? clock(ms) : `${day.toLocaleDateString([], { day: 'numeric', month: 'short' })} ${clock(ms)}`;
}

const timeOf = (ms) => h('time', { datetime: new Date(ms).toISOString() }, when(ms));

function plural(count, one, many) {
	return `${count} ${count === 1 ? one : many}`;
}

/* What a tenant does, as the five things that a person tells apart. */
const KINDS = {
	running: 'runs', computes: 'runs', 'long-kernel': 'runs',
	'waits-for-room': 'waits', 'waits-for-memory': 'waits', 'waits-for-turn': 'waits', capped: 'waits',
	parked: 'away', yields: 'away', suspended: 'away',
	stopped: 'bad', hangs: 'bad', 'suspended-by-share': 'bad',
};

/* As a word, where a colour alone would say it. */
const KIND_WORDS = { runs: 'runs', waits: 'waits', idle: 'idle', away: 'moved away', bad: 'needs a look' };

const HOST_HAS_NO_MEMORY = 1 << 11; /* of unmovable_why */

/* What `mete top` shows as wrong (view/ps_words.c), whatever the tenant does meanwhile. */
const isWrong = (tenant) => Boolean(tenant.over_bytes || tenant.stuck || tenant.kept_bytes || tenant.behind && tenant.doing === 'waits-for-memory' || tenant.unmovable_why & HOST_HAS_NO_MEMORY);

const kindOf = (tenant) => isWrong(tenant) ? 'bad' : KINDS[tenant.doing] || 'idle';

/* Of each tenant among the rows the worst of its kinds: it has a row for each of its devices, and counts once. */
const KINDS_BY_RANK = ['idle', 'away', 'runs', 'waits', 'bad'];

function worstKinds(rows) {
	const worst = new Map();
	for (const row of rows) {
		const rank = KINDS_BY_RANK.indexOf(kindOf(row));
		worst.set(row.tenant, Math.max(rank, worst.get(row.tenant) || 0));
	}
	return [...worst.values()].map((rank) => KINDS_BY_RANK[rank]);
}

const countOf = (kinds, kind) => kinds.filter((one) => one === kind).length;

/* A line per series over the last looks, each as parts of `top`. `series`: {label, values, kind}. */
function chart(title, height) {
	const plot = svg('svg', { viewBox: `0 0 600 ${height}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': title });
	const legend = h('p.legend', { 'aria-hidden': 'true' });
	const figure = h('figure.chart', {}, h('figcaption', {}, title), plot, legend);
	const paths = new Map();
	figure.draw = (series, top, words) => {
		mark(plot, 'aria-label', words);
		for (const { kind, label, values, area } of series) {
			if (!paths.has(kind)) {
				const path = svg('path', { class: `${area ? 'area' : 'line'} ${kind}` });
				paths.set(kind, path);
				plot.append(path);
				legend.append(h('span', {}, h(`i.${kind}`), label));
			}
			mark(paths.get(kind), 'd', line(values, top, height, area));
		}
	};
	return figure;
}

function line(values, top, height, area) {
	const step = 600 / (values.length - 1);
	let path = '', drawing = false, first = 0;
	for (let i = 0; i < values.length; i++) {
		const value = values[i];
		if (Number.isNaN(value)) {
			if (drawing && area)
				path += `L${((i - 1) * step).toFixed(1)} ${height}Z`;
			drawing = false;
			continue;
		}
		const x = (i * step).toFixed(1), y = (height - Math.min(1, top ? value / top : 0) * (height - 2) - 1).toFixed(1);
		if (!drawing)
			first = x;
		path += drawing ? `L${x} ${y}` : area ? `M${first} ${height}L${x} ${y}` : `M${x} ${y}`;
		drawing = true;
	}
	if (drawing && area)
		path += `L600 ${height}Z`;
	return path;
}

/* A small chart of the last minute, of parts of one. */
function spark() {
	const path = svg('path', { class: 'area had' });
	const plot = svg('svg', { class: 'spark', viewBox: '0 0 600 28', preserveAspectRatio: 'none', role: 'img' }, path);
	plot.draw = (values) => {
		const said = values.filter((value) => !Number.isNaN(value));
		mark(path, 'd', line(values, 1, 28, true));
		mark(plot, 'aria-label', said.length ? `busy in the last minute: ${percent(Math.min(...said))} to ${percent(Math.max(...said))}` : 'not known how busy');
	};
	return plot;
}

/* What was done at each look, as a strip of colours. */
function strip(title) {
	const plot = svg('svg', { viewBox: '0 0 600 24', preserveAspectRatio: 'none', role: 'img', 'aria-label': title });
	const legend = h('p.legend', { 'aria-hidden': 'true' });
	for (const [kind, label] of Object.entries(KIND_WORDS))
		legend.append(h('span', {}, h(`i.${kind}`), label));
	const figure = h('figure.chart', {}, h('figcaption', {}, title), plot, legend);
	const pool = [];
	figure.draw = (kinds, words) => {
		const step = 600 / kinds.length;
		let used = 0;
		for (let from = 0; from < kinds.length;) {
			let to = from + 1;
			while (to < kinds.length && kinds[to] === kinds[from])
				to++;
			if (kinds[from]) {
				const box = pool[used] || plot.appendChild(pool[used] = svg('rect', { y: 0, height: 24 }));
				mark(box, 'class', kinds[from]);
				mark(box, 'x', (from * step).toFixed(1));
				mark(box, 'width', ((to - from) * step).toFixed(1));
				used++;
			}
			from = to;
		}
		for (; used < pool.length; used++)
			mark(pool[used], 'width', 0);
		mark(plot, 'aria-label', words);
	};
	return figure;
}
