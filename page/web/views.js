/* SPDX-License-Identifier: Apache-2.0 */
/* The views: each builds its elements once, and then writes what has changed. */

const fullOf = (device) => device.capacity_bytes ? 1 - device.free_bytes / device.capacity_bytes : 0;
const linkOf = (row) => `#/tenant/${row.tenant}/${row.device}`;

function tenantsOn(index) {
	return [...store.tenants.values()].filter((row) => row.device === index);
}

/* Elements by key in a parent: made, written and moved as `items` say. */
function keyed(parent, make) {
	const shown = new Map();
	return (items, keyOfItem) => {
		const keys = new Set(items.map(keyOfItem));
		for (const [key, element] of shown) {
			if (!keys.has(key)) {
				element.remove();
				shown.delete(key);
			}
		}
		items.forEach((item, i) => {
			const key = keyOfItem(item);
			if (!shown.has(key))
				shown.set(key, make(item));
			const element = shown.get(key);
			element.write(item);
			if (parent.children[i] !== element)
				parent.insertBefore(element, parent.children[i] || null);
		});
	};
}

/* What its board says: "73 % busy · 61 °C · 320 of 700 W"; "": nothing. */
function boardWords(device) {
	const { utilization_percent: busy, temperature_celsius: warm, power_watts: power, power_limit_watts: most } = device;
	return [isSaid(busy) && `${busy} % busy`, isSaid(warm) && `${warm} °C`, isSaid(power) && (isSaid(most) ? `${power} of ${most} W` : `${power} W`)].filter(Boolean).join(' · ');
}

/* What its tenants may have together; "": nothing. It may be more than there is. */
const promisedWords = (device) => device.promised_bytes ? `, ${bytes(device.promised_bytes)} promised` : '';

/* Of all devices whose boards say it: how busy they are, and what they take. */
function writeBoards(busy, power, all) {
	const loads = all.filter((device) => isSaid(device.utilization_percent)), fed = all.filter((device) => isSaid(device.power_watts));
	const warm = all.filter((device) => isSaid(device.temperature_celsius)).sort((a, b) => b.temperature_celsius - a.temperature_celsius)[0];
	const sum = (of) => fed.reduce((total, device) => total + (device[of] || 0), 0);
	busy.hidden = !loads.length;
	power.hidden = !fed.length;
	const idle = loads.filter((device) => !device.utilization_percent).length;
	busy.write(percent(loads.reduce((total, device) => total + device.utilization_percent / 100, 0) / (loads.length || 1)), idle ? `${idle} of ${loads.length} idle` : 'none is idle');
	const limit = fed.every((device) => isSaid(device.power_limit_watts)) ? `of ${watts(sum('power_limit_watts'))}` : '';
	power.write(watts(sum('power_watts')), [limit, warm && `hottest ${warm.temperature_celsius} °C (GPU ${warm.index})`].filter(Boolean).join(', '));
}

/* Memory of a device: tenants', outside, kept back, free. */
function memoryBar() {
	const parts = { used: h('i.used'), outside: h('i.outside'), reserve: h('i.reserve') };
	const bar = h('div.meter', { role: 'img' }, ...Object.values(parts));
	bar.write = (device) => {
		const of = device.capacity_bytes;
		wide(parts.used, device.used_bytes / of);
		wide(parts.outside, device.outside_bytes / of);
		wide(parts.reserve, device.reserve_bytes / of);
		mark(bar, 'aria-label', `${bytes(device.used_bytes)} of tenants, ${bytes(device.outside_bytes)} outside mete, ${bytes(device.free_bytes)} free, of ${bytes(of)}`);
	};
	return bar;
}

function card(title) {
	const value = h('p.value'), note = h('p.note');
	const element = h('section.card', {}, h('h2', {}, title), value, note);
	element.write = (said, more) => {
		say(value, said);
		say(note, more);
	};
	return element;
}

function tenantLine() {
	const name = h('a'), where = h('span.where'), why = h('p.why');
	const element = h('li.line', {}, h('div', {}, name, where), why);
	element.write = (row) => {
		say(name, row.name);
		mark(name, 'href', linkOf(row));
		say(where, `${row.user} · GPU ${row.device}`);
		say(why, row.state);
		mark(element, 'data-kind', kindOf(row));
	};
	return element;
}

function deviceLine() {
	const name = h('a', { href: '#/devices' }), where = h('span.where'), bar = memoryBar();
	const element = h('li.line', {}, h('div', {}, name, where), bar);
	element.write = (device) => {
		say(name, `GPU ${device.index}`);
		say(where, [device.model, device.cordoned && 'cordoned', `${percent(fullOf(device))} full`, boardWords(device)].filter(Boolean).join(' · '));
		bar.write(device);
	};
	return element;
}

/* At an address that somebody has mistyped, or kept for too long. */
function nowhere(sentence) {
	const root = h('div', {}, h('h1', {}, 'Not here'), h('p.none', {}, sentence), h('p.back', {}, 'There are ',
		h('a', { href: '#/' }, 'an overview'), ', ', h('a', { href: '#/devices' }, 'the devices'), ' and ', h('a', { href: '#/tenants' }, 'the tenants'), '.'));
	root.write = () => {};
	return root;
}

/* The story of a tenant by its name or number, as soon as it is there. */
function tenantCalled(name) {
	const root = nowhere(`No tenant here is called ${name}: it has ended, has not come yet, or is not yours to see.`);
	root.write = () => {
		const row = [...store.tenants.values()].find((one) => one.name === name || String(one.tenant) === name);
		if (row)
			location.replace(linkOf(row));
	};
	return root;
}

/* Whom it is of: a tenant's story, where he is here; the device; or meted. */
function newsLine(event) {
	const name = h('a'), who = h('span.who', {}, ...(event.tenant ? [name, ' '] : []), event.device === undefined ? event.tenant ? '' : 'meted' : `GPU ${event.device}`);
	const element = h('li', { 'data-kind': event.kind }, timeOf(event.at), who, h('span', {}, event.text));
	say(name, event.name);
	element.write = () => {
		const row = event.tenant && (store.tenants.get(keyOf(event)) || [...store.tenants.values()].find((one) => one.tenant === event.tenant));
		mark(name, 'href', row ? linkOf(row) : null);
	};
	return element;
}

/* What has happened here lately, the newest first. It is no live region: where many share, there is always news. */
function newsPanel() {
	const list = h('ol.events.news', { tabindex: 0, 'aria-label': 'What has happened, the newest first' }), none = h('p.none', {}, 'Nothing that meted has told of.');
	const element = h('section.panel', {}, h('h2', {}, 'What has happened'), none, list), write = keyed(list, newsLine);
	element.write = () => {
		none.hidden = store.news.length > 0;
		list.hidden = !store.news.length;
		write(store.news, (event) => event.number);
	};
	return element;
}

/* Whose the devices are: each user's sums, who had most of the time first. Of one user there is nothing to compare. */
function usersOf(rows) {
	const users = new Map();
	for (const row of rows) {
		const user = users.get(row.user) || { name: row.user, rows: [], gpus: new Set(), used: 0, had: 0, due: 0, counted: false };
		users.set(row.user, user);
		user.rows.push(row);
		user.gpus.add(row.device);
		user.used += row.used_bytes;
		if (!row.time.by_turns)
			continue;
		user.counted = true;
		user.had += row.time.charged_1s_ns / 1e9;
		user.due += row.time.entitled_1s_ns / 1e9;
	}
	return [...users.values()].sort((a, b) => b.had - a.had || b.used - a.used || (a.name < b.name ? -1 : 1));
}

function userRow() {
	const name = h('a'), cells = [h('td'), h('td'), h('td'), h('td'), h('td.extra')], row = h('tr', {}, h('th', { scope: 'row' }, name), ...cells);
	row.write = (user) => {
		const kinds = worstKinds(user.rows), time = user.counted ? `${percent(user.had)} of ${percent(user.due)}` : '–';
		say(name, user.name);
		mark(name, 'href', `#/tenants/${encodeURIComponent(`user=${user.name}`)}`);
		[kinds.length, countOf(kinds, 'waits'), bytes(user.used), time, [...user.gpus].sort((a, b) => a - b).join(' ')].forEach((text, i) => say(cells[i], String(text)));
	};
	return row;
}

function usersPanel() {
	const body = h('tbody'), write = keyed(body, userRow);
	const titles = ['User', 'Tenants', 'Waiting', 'Memory', 'Had of due', 'GPUs'];
	const element = h('section.panel.users', {}, h('h2', {}, 'Users'),
		h('table', {}, h('thead', {}, h('tr', {}, ...titles.map((title, i) => h(i < 5 ? 'th' : 'th.extra', { scope: 'col' }, title)))), body),
		h('p.note', {}, 'Of the last second of the GPUs on which turns are taken: 100 % is one GPU.'));
	element.write = (rows) => {
		const users = usersOf(rows);
		element.hidden = users.length < 2;
		write(users, (user) => user.name);
	};
	return element;
}

function overview() {
	const memory = card('Memory'), busy = card('Busy'), power = card('Power'), devices = card('Devices'), tenants = card('Tenants'), waits = card('Waiting');
	const none = h('p.none', {}, 'Nobody waits, and nothing needs a look.');
	const waiting = h('ul.lines'), fullest = h('ul.lines');
	const users = usersPanel(), news = newsPanel(), writeWaiting = keyed(waiting, tenantLine), writeFullest = keyed(fullest, deviceLine);
	const root = h('div.overview', {}, h('h1', {}, 'Overview'), h('div.cards', {}, memory, busy, power, devices, tenants, waits),
		h('div.columns', {}, h('section.panel', {}, h('h2', {}, 'Who waits, and why'), none, waiting),
			h('section.panel', {}, h('h2', {}, 'Fullest devices'), fullest)), users, news);
	root.write = () => {
		const all = [...store.devices.values()], rows = [...store.tenants.values()];
		const sum = (of) => all.reduce((total, device) => total + of(device), 0);
		const total = sum((device) => device.capacity_bytes), free = sum((device) => device.free_bytes);
		const kinds = worstKinds(rows), open = all.filter((device) => !device.cordoned).length;
		const need = rows.filter((row) => ['waits', 'bad'].includes(kindOf(row)));
		const people = new Set(rows.map((row) => row.user)).size;
		memory.write(percent(total ? 1 - free / total : 0), `${bytes(free)} of ${bytes(total)} free`);
		writeBoards(busy, power, all);
		devices.write(String(all.length), !all.length ? 'meted has none' : open === all.length ? 'all take new tenants' : `${all.length - open} cordoned`);
		tenants.write(String(kinds.length), `${plural(people, 'user', 'users')}, ${countOf(kinds, 'runs')} run`);
		waits.write(String(countOf(kinds, 'waits')), plural(countOf(kinds, 'bad'), 'needs a look', 'need a look'));
		need.sort((a, b) => (kindOf(b) === 'bad') - (kindOf(a) === 'bad') || b.doing_ns - a.doing_ns || a.tenant - b.tenant);
		writeWaiting(need.slice(0, 8), keyOf);
		none.hidden = need.length > 0;
		users.write(rows);
		news.write();
		writeFullest(all.sort((a, b) => fullOf(b) - fullOf(a) || a.index - b.index).slice(0, 6), (device) => device.index);
	};
	return root;
}

const DEVICE_ORDERS = {
	'fullest first': (a, b) => fullOf(b) - fullOf(a) || a.index - b.index,
	'emptiest first': (a, b) => fullOf(a) - fullOf(b) || a.index - b.index,
	'busiest first': (a, b) => (b.utilization_percent ?? -1) - (a.utilization_percent ?? -1) || a.index - b.index,
	'by number': (a, b) => a.index - b.index,
};
const MOST_ON_CARD = 5;

function deviceCard(device) {
	const badge = h('span.badge', {}, 'cordoned'), amount = h('p.amount'), board = h('p.amount'), busy = spark(), time = h('p.amount'), bar = memoryBar(), list = h('ul.on'), more = h('p.more');
	const full = h('span.full'), writeList = keyed(list, () => {
		const name = h('a'), held = h('span'), does = h('span.unseen');
		const item = h('li', {}, name, h('span', {}, does, held));
		item.write = (row) => {
			say(name, row.name);
			mark(name, 'href', linkOf(row));
			say(held, bytes(row.used_bytes));
			say(does, `${KIND_WORDS[kindOf(row)]}, `);
			mark(item, 'data-kind', kindOf(row));
		};
		return item;
	});
	const model = h('span');
	const element = h('li.card.device', {}, h('h2', {}, `GPU ${device.index} `, full), h('p.model', { title: device.uuid }, model, ' ', badge), bar, amount, busy, board, time, list, more);
	element.write = (now) => {
		const on = element.rows || [];
		say(model, now.model);
		say(full, `${percent(fullOf(now))} full`);
		badge.hidden = !now.cordoned;
		bar.write(now);
		say(amount, `${bytes(now.free_bytes)} free of ${bytes(now.capacity_bytes)}${now.outside_bytes >= MIB ? `, ${bytes(now.outside_bytes)} outside mete` : ''}${promisedWords(now)}`);
		say(board, boardWords(now));
		busy.toggleAttribute('hidden', !isSaid(now.utilization_percent));
		board.hidden = !board.said;
		if (store.loads.has(now.index))
			busy.draw(inOrder(store.loads.get(now.index).busy).slice(-60));
		const taking = on.filter((row) => row.time.by_turns), had = taking.reduce((sum, row) => sum + row.time.charged_1s_ns / 1e9, 0);
		say(time, `${store.sees === 'all' ? 'tenants' : 'yours'} had ${percent(Math.min(1, had))} of its last second`);
		time.hidden = !taking.length;
		writeList(on.slice(0, MOST_ON_CARD), keyOf);
		say(more, on.length > MOST_ON_CARD ? `and ${on.length - MOST_ON_CARD} more` : on.length ? '' : store.sees === 'all' ? 'no tenants' : 'none of yours');
	};
	return element;
}

function devices() {
	const order = h('select', { id: 'order', onchange: () => root.write() }, ...Object.keys(DEVICE_ORDERS).map((name) => h('option', {}, name)));
	const grid = h('ul.grid'), cards = new Map(), none = h('p.none', {}, 'meted has no devices.');
	const write = keyed(grid, (device) => {
		const made = deviceCard(device);
		cards.set(device.index, made);
		return made;
	});
	const root = h('div', {}, h('div.head', {}, h('h1', {}, 'Devices'), h('label', { for: 'order' }, 'Order'), order), none, grid);
	root.write = () => {
		none.hidden = store.devices.size > 0;
		const on = new Map();
		for (const row of store.tenants.values())
			on.has(row.device) ? on.get(row.device).push(row) : on.set(row.device, [row]);
		for (const rows of on.values())
			rows.sort((a, b) => b.used_bytes - a.used_bytes || a.tenant - b.tenant);
		const sorted = [...store.devices.values()].sort(DEVICE_ORDERS[order.value]);
		for (const device of sorted)
			if (cards.has(device.index))
				cards.get(device.index).rows = on.get(device.index);
		write(sorted, (device) => device.index);
		for (const device of sorted)
			if (!cards.get(device.index).rows && on.has(device.index)) {
				cards.get(device.index).rows = on.get(device.index);
				cards.get(device.index).write(device);
			}
	};
	return root;
}
