/* SPDX-License-Identifier: Apache-2.0 */
/* What meted says, as it says it: rows, their history of minutes, and what has happened. The page alone keeps the history. */

const LOOKS = 300; /* a second each */
const EVENTS = 200;
const SILENT_MS = 30000;
const STORY = ['had', 'due', 'here', 'out', 'movedOut', 'movedIn'];

const store = {
	known: false, meted: null, sees: '', viewer: '', devices: new Map(), tenants: new Map(), outside: [],
	past: new Map(), /* of each row of a tenant */
	looks: 0, lookedAt: 0, live: false, changed: new Set(), moved: false,
};

const keyOf = (row) => `${row.tenant}/${row.device}`;

function newPast() {
	const past = { kind: new Array(LOOKS).fill(null), events: [] };
	for (const name of STORY)
		past[name] = new Float64Array(LOOKS).fill(NaN);
	return past;
}

function happened(key, text, kind) {
	const past = store.past.get(key);
	past.events.unshift({ at: Date.now(), text, kind });
	past.events.length = Math.min(past.events.length, EVENTS);
}

/* What a person would want to have been told. */
function notice(key, before, now) {
	if (before.doing !== now.doing)
		happened(key, now.state, kindOf(now));
	if (before.limit_bytes !== now.limit_bytes)
		happened(key, `its limit is ${bytes(now.limit_bytes)} now, and was ${bytes(before.limit_bytes)}`, 'told');
	if (before.refusals < now.refusals)
		happened(key, `memory was refused (${plural(now.refusals, 'time', 'times')} so far)`, 'bad');
	if (before.moved_out_bytes < now.moved_out_bytes)
		happened(key, `${bytes(now.moved_out_bytes - before.moved_out_bytes)} left the device`, 'away');
	if (before.moved_in_bytes < now.moved_in_bytes)
		happened(key, `${bytes(now.moved_in_bytes - before.moved_in_bytes)} came back`, 'runs');
	if (before.processes.length !== now.processes.length)
		happened(key, `${plural(now.processes.length, 'process', 'processes')} now`, 'told');
	if (before.share !== now.share)
		happened(key, `its share: ${now.share || 'as by default'}`, 'told');
}

/* When meted has begun anew, a number may be somebody else's. */
const isAnother = (before, row) => ['name', 'user', 'pid'].some((name) => before[name] !== row[name]);

function addTenant(row, fresh, before) {
	const key = keyOf(row);
	row.seenAt = performance.now(); /* which goes on where the computer's clock is set */
	store.tenants.set(key, row);
	if (!store.past.has(key) || (before && isAnother(before, row)))
		store.past.set(key, newPast());
	if (fresh)
		happened(key, 'came', 'told');
	store.moved = true;
}

function mergeTenant(change) {
	const key = keyOf(change), row = store.tenants.get(key);
	if (!row) {
		addTenant(change, true);
		return;
	}
	const before = { ...row };
	if (change.time)
		change.time = Object.assign(row.time, change.time);
	Object.assign(row, change);
	notice(key, before, row);
	store.changed.add(key);
}

function onState(state) {
	Object.assign(store, { known: true, meted: state.meted, sees: state.sees, viewer: state.viewer, outside: state.outside, moved: true });
	store.devices = new Map(state.devices.map((device) => [device.index, device]));
	const before = store.tenants;
	store.tenants = new Map();
	for (const row of state.tenants)
		addTenant(row, false, before.get(keyOf(row)));
	for (const key of store.past.keys())
		if (!store.tenants.has(key))
			store.past.delete(key);
}

function onChange(change) {
	for (const device of change.devices)
		store.devices.set(device.index, Object.assign(store.devices.get(device.index) || {}, device));
	for (const row of change.tenants)
		mergeTenant(row);
	for (const gone of change.gone) {
		if ('index' in gone) {
			store.devices.delete(gone.index);
			continue;
		}
		store.tenants.delete(keyOf(gone));
		store.past.delete(keyOf(gone));
		store.moved = true;
	}
	if (change.meted)
		store.meted = change.meted;
	if (change.outside)
		store.outside = change.outside;
}

/* A step of all histories: once a second. Of what nobody says nothing is drawn. */
function look() {
	const at = store.looks++ % LOOKS;
	store.lookedAt = performance.now();
	for (const [key, row] of store.tenants) {
		const past = store.past.get(key);
		if (!store.live) {
			for (const name of STORY)
				past[name][at] = NaN;
			past.kind[at] = null;
			continue;
		}
		past.had[at] = row.time.charged_1s_ns / 1e9;
		past.due[at] = row.time.by_turns ? row.time.entitled_1s_ns / 1e9 : NaN;
		past.here[at] = row.used_bytes - row.out_bytes;
		past.out[at] = row.out_bytes;
		past.movedOut[at] = row.moved_out_bytes;
		past.movedIn[at] = row.moved_in_bytes;
		past.kind[at] = kindOf(row);
	}
}

/* A ring in the order of time. */
function inOrder(ring) {
	const at = store.looks % LOOKS, all = new Array(LOOKS);
	for (let i = 0; i < LOOKS; i++)
		all[i] = ring[(at + i) % LOOKS];
	return all;
}

/* Of figures that only grow: how much by each look. */
function steps(values) {
	return values.map((value, i) => i && !Number.isNaN(values[i - 1]) ? value - values[i - 1] : Number.isNaN(value) ? NaN : 0);
}

/* The stream; `tell` hears of: live, waits, denied, full. */
function follow(token, tell, changed) {
	let pause = 500;

	/* meted says something every 10 s. A connection that broke without a word (a computer that slept) says nothing any more. */
	async function read(reader) {
		const decoder = new TextDecoder();
		let text = '';
		for (;;) {
			const silent = setTimeout(() => reader.cancel(), SILENT_MS);
			const { value, done } = await reader.read().finally(() => clearTimeout(silent));
			if (done)
				return;
			text += decoder.decode(value, { stream: true });
			for (let end; (end = text.indexOf('\n\n')) >= 0; text = text.slice(end + 2))
				hear(text.slice(0, end));
		}
	}

	function hear(event) {
		const from = performance.now();
		const name = /^event: (\w+)$/m.exec(event), data = /^data: (.*)$/m.exec(event);
		if (!name || !data)
			return;
		(name[1] === 'state' ? onState : onChange)(JSON.parse(data[1]));
		pause = 500;
		tell('live');
		changed(from);
	}

	async function connect() {
		try {
			const headers = token() ? { Authorization: `Bearer ${token()}` } : {};
			const answer = await fetch('v1/events', { headers, cache: 'no-store', credentials: 'omit' });
			if (answer.status === 401 || answer.status === 403) {
				tell('denied');
				return;
			}
			if (answer.ok)
				await read(answer.body.getReader());
			tell(answer.status === 503 ? 'full' : 'waits');
		} catch (error) {
			if (error instanceof SyntaxError)
				console.error(error);
			tell('waits');
		}
		setTimeout(connect, pause);
		pause = Math.min(2 * pause, 10000);
	}

	connect();
}
