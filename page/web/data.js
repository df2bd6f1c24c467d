/* SPDX-License-Identifier: Apache-2.0 */
/* What meted says, as it says it: rows, their history of minutes, and what has happened. The page alone keeps the history. */

const LOOKS = 300; /* a second each */
const EVENTS = 200;
const NEWS = 32; /* as many as meted tells at a time */
const SILENT_MS = 30000;
/* Of meted's events, as the five things that a person tells apart (draw.js). */
const EVENT_KINDS = {
	refused: 'bad', hangs: 'bad', stuck: 'bad', halted: 'bad', killed: 'bad', over: 'bad',
	unhealthy: 'bad', stranger: 'bad', cordoned: 'away', uncordoned: 'runs', healthy: 'runs',
	waits: 'waits', waited: 'runs', parked: 'away', suspended: 'away', resumed: 'runs', returned: 'runs', recovered: 'runs',
};
const STORY = ['had', 'due', 'here', 'out', 'movedOut', 'movedIn'];

const store = {
	known: false, meted: null, sees: '', viewer: '', devices: new Map(), tenants: new Map(), outside: [],
	past: new Map(), /* of each row of a tenant */
	loads: new Map(), /* of each device: how busy it was */
	news: [], /* what meted has told of anybody, the newest first */
	states: 0, looks: 0, lookedAt: 0, lookedClock: 0, live: false, again: null, changed: new Set(), moved: false,
};

/* Of a device's board; null, where the driver has stopped to say it. */
const isSaid = (figure) => figure !== undefined && figure !== null;

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

/* What meted has told of a tenant on a device, from before the page was open or while it heard nothing. Each once; its clock may not be ours. */
function remember(tenant, device, told) {
	const past = store.past.get(`${tenant}/${device}`), ahead = Date.parse(told.clock) - Date.now();
	if (!past)
		return;
	const known = new Set(past.events.map((event) => event.id)), oldest = past.events.length < EVENTS ? 0 : past.events[EVENTS - 1].at;
	const fresh = told.events.filter((event) => event.tenant === tenant && (event.device === undefined || event.device === device))
		.map((event) => ({ id: `${event.at} ${event.number}`, at: Date.parse(event.at) - ahead, text: event.said, kind: EVENT_KINDS[event.kind] || 'told' }))
		.filter((event) => !known.has(event.id) && event.at > oldest);
	if (fresh.length)
		past.events = [...fresh, ...past.events].sort((a, b) => b.at - a.at).slice(0, EVENTS);
}

/* What meted tells at once, of all that one sees. Its clock may not be ours. */
function hearNews(told) {
	const ahead = Date.parse(told.clock) - Date.now(), newest = store.news.length ? store.news[0].number : 0;
	const fresh = told.events.filter((event) => event.number > newest)
		.map((event) => ({ number: event.number, at: Date.parse(event.at) - ahead, tenant: event.tenant, device: event.device, name: event.name, text: event.said, kind: EVENT_KINDS[event.kind] || 'told' }));
	store.news = [...fresh.reverse(), ...store.news].slice(0, NEWS);
}

/* What a person would want to have been told, and no event of meted's tells. */
function notice(key, before, now) {
	if (before.doing !== now.doing)
		happened(key, now.state, kindOf(now));
	if (before.moved_out_bytes < now.moved_out_bytes)
		happened(key, `${bytes(now.moved_out_bytes - before.moved_out_bytes)} left the device`, 'away');
	if (before.moved_in_bytes < now.moved_in_bytes)
		happened(key, `${bytes(now.moved_in_bytes - before.moved_in_bytes)} came back`, 'runs');
	if (before.processes.length !== now.processes.length)
		happened(key, `${plural(now.processes.length, 'process', 'processes')} now`, 'told');
}

/* When meted has begun anew, a number may be somebody else's. */
const isAnother = (before, row) => ['name', 'user', 'pid'].some((name) => before[name] !== row[name]);

function addTenant(row, before) {
	const key = keyOf(row);
	row.seenAt = performance.now(); /* which goes on where the computer's clock is set */
	store.tenants.set(key, row);
	if (!store.past.has(key) || (before && isAnother(before, row)))
		store.past.set(key, newPast());
	store.moved = true;
}

function mergeTenant(change) {
	const key = keyOf(change), row = store.tenants.get(key);
	if (!row) {
		addTenant(change);
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
	store.news = [];
	hearNews(state);
	store.states++; /* between two of them something may have been missed */
	const before = store.tenants;
	store.tenants = new Map();
	for (const row of state.tenants)
		addTenant(row, before.get(keyOf(row)));
	for (const key of store.past.keys())
		if (!store.tenants.has(key))
			store.past.delete(key);
	for (const [index, load] of store.loads)
		if (store.devices.get(index)?.uuid !== load.uuid)
			store.loads.delete(index);
}

function onChange(change) {
	for (const device of change.devices)
		store.devices.set(device.index, Object.assign(store.devices.get(device.index) || {}, device));
	for (const row of change.tenants)
		mergeTenant(row);
	for (const gone of change.gone) {
		if ('index' in gone) {
			store.devices.delete(gone.index);
			store.loads.delete(gone.index);
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
	if (change.events)
		hearNews(change);
}

/* How many seconds have passed since the last look. A computer that sleeps stops one clock of a browser, and a person sets the other. */
function passed() {
	const s = Math.max(performance.now() - store.lookedAt, Date.now() - store.lookedClock) / 1000;
	return store.lookedAt ? Math.max(1, Math.min(LOOKS, Math.floor(s))) : 1;
}

/* Steps of all histories, one for each second. Of what nobody says nothing is drawn, and nothing of the time in which this page was asleep. */
function look() {
	const seconds = passed(), awake = seconds * 1000 <= SILENT_MS;
	if (!awake && store.live)
		store.again(); /* its connection may have ended without a word meanwhile */
	store.lookedAt = performance.now();
	store.lookedClock = Date.now();
	for (let left = seconds; left > 0; left--)
		step(store.live && (awake || left === 1));
}

function step(heard) {
	const at = store.looks++ % LOOKS;
	for (const [index, device] of store.devices) {
		if (!store.loads.has(index))
			store.loads.set(index, { uuid: device.uuid, busy: new Float32Array(LOOKS).fill(NaN) });
		store.loads.get(index).busy[at] = heard && isSaid(device.utilization_percent) ? device.utilization_percent / 100 : NaN;
	}
	for (const [key, row] of store.tenants) {
		const past = store.past.get(key);
		if (!heard) {
			for (const name of STORY)
				past[name][at] = NaN;
			past.kind[at] = null;
			continue;
		}
		past.had[at] = row.time.by_turns ? row.time.charged_1s_ns / 1e9 : NaN; /* otherwise it is not counted */
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
		store.again = () => reader.cancel();
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
		if (!name || !data) {
			if (store.known)
				changed(from); /* a page that nobody sees is woken by this alone */
			return;
		}
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
