/* SPDX-License-Identifier: Apache-2.0 */
/* One tenant on one device: what it does and why, what it had of time and memory, what has happened. */

function facts(names) {
	const list = h('dl.facts'), values = {};
	for (const name of names) {
		values[name] = h('dd');
		list.append(h('div', {}, h('dt', {}, name), values[name]));
	}
	list.write = (said) => {
		for (const [name, text] of Object.entries(said))
			say(values[name], text);
	};
	return list;
}

function processTable() {
	const body = h('tbody');
	const write = keyed(body, () => {
		const cells = ['td', 'td', 'td.number', 'td.number'].map((spec) => h(spec));
		const row = h('tr', {}, ...cells);
		row.write = (process) => [process.pid, process.program, bytes(process.allocated_bytes), bytes(process.residual_bytes)]
			.forEach((text, i) => say(cells[i], String(text)));
		return row;
	});
	const table = h('table', {}, h('thead', {}, h('tr', {}, ...['Process', 'Program', 'Allocated', 'Of the driver'].map((title) => h('th', { scope: 'col' }, title)))), body);
	table.write = (processes) => write(processes, (process) => process.pid);
	return table;
}

/* The newest first, in which one can be scrolled by keyboard, too. */
function eventList() {
	const list = h('ol.events', { tabindex: 0, 'aria-label': 'What has happened, the newest first' }), none = h('p.none', {}, 'Nothing that meted has told of.');
	const element = h('section.panel', {}, h('h2', {}, 'What has happened'), none, list);
	let newest = null, written = null;
	element.write = (events) => {
		if (events !== written) { /* another tenant has the number now, or meted has told of what was before */
			list.replaceChildren();
			newest = null;
			written = events;
		}
		none.hidden = events.length > 0;
		list.hidden = !events.length;
		const fresh = newest ? events.indexOf(newest) : events.length;
		for (let i = (fresh < 0 ? events.length : fresh) - 1; i >= 0; i--)
			list.prepend(h('li', { 'data-kind': events[i].kind }, timeOf(events[i].at), h('span', {}, events[i].text)));
		newest = events[0] || null;
		while (list.children.length > EVENTS)
			list.lastChild.remove();
	};
	return element;
}

const last = (values) => values[values.length - 1] || 0;

function charts() {
	const turns = strip('What it did, the last five minutes'), time = chart('Time of the device, each second', 90);
	const memory = chart('Memory', 90), moved = chart('Memory that moved, each second', 60);
	const open = h('p.note', {}, 'No turns are taken on this device now: who has how much of its time is not counted.');
	const element = h('section.panel.charts', {}, h('h2', {}, 'The last five minutes'), turns, time, open, memory, moved);
	element.write = (row, past) => {
		const had = inOrder(past.had), due = inOrder(past.due), here = inOrder(past.here), out = inOrder(past.out);
		const left = steps(inOrder(past.movedOut)), came = steps(inOrder(past.movedIn));
		const most = Math.max(1, ...left.concat(came).filter((value) => !Number.isNaN(value)));
		turns.draw(inOrder(past.kind), `now ${row.state}`);
		open.hidden = row.time.by_turns;
		time.draw([{ kind: 'had', label: 'had', values: had, area: true }, { kind: 'due', label: 'due', values: due }], 1,
			row.time.by_turns ? `had ${percent(last(had))}, due ${percent(last(due))} in the last second` : 'not counted now');
		memory.draw([{ kind: 'here', label: 'on the device', values: here, area: true }, { kind: 'out', label: 'in the host’s memory', values: out }],
			Math.max(row.limit_bytes, row.used_bytes), `${bytes(row.used_bytes - row.out_bytes)} on the device, ${bytes(row.out_bytes)} in the host’s memory`);
		moved.draw([{ kind: 'left', label: 'left', values: left }, { kind: 'came', label: 'came back', values: came }], most,
			`${bytes(row.moved_out_bytes)} left and ${bytes(row.moved_in_bytes)} came back in all`);
	};
	return element;
}

/* The sentences of `mete why`, and what meted remembers: asked for while the story is open, when something has changed, and every few seconds while it waits. */
function reasons(tenant, device) {
	const list = h('ul.reasons', { 'aria-label': 'Who has what it waits for, and what helps' });
	let of = null, at = 0, asked = false, said = '';
	async function ask() {
		asked = true;
		const answer = await askTenant(tenant).catch(() => null);
		asked = false;
		if (answer)
			remember(tenant, device, answer);
		const found = answer && answer.why.find((one) => one.tenant === tenant && one.device === device);
		if (!found || found.sentences.join('\n') === said) /* what is read aloud is not written again */
			return;
		said = found.sentences.join('\n');
		list.replaceChildren(...found.sentences.map((sentence) => h('li', {}, sentence)));
		list.hidden = !found.sentences.length;
	}
	list.hidden = true;
	list.write = (row, waits) => {
		const now = performance.now(), news = [row.doing, row.refusals, row.share, row.limit_bytes, store.states, store.news.find((event) => event.tenant === tenant)?.number].join();
		if (asked || (of === news && (!waits || now - at < 3000)))
			return;
		of = news;
		at = now;
		ask();
	};
	return list;
}

const links = (rows) => rows.flatMap((row) => [h('a', { href: linkOf(row) }, `GPU ${row.device}`), ' ']);

function story(tenant, device) {
	const key = `${tenant}/${device}`;
	const title = h('h1'), badge = h('span.badge'), why = h('p.sentence'), helps = reasons(tenant, device), command = h('p.command');
	const list = facts(['User', 'Device', 'Memory', 'Limit', 'On the device', 'In the host’s memory', 'Most it held', 'Time, last second', 'Time, last minute', 'Turns', 'Longest wait', 'Refused', 'For how long']);
	const share = h('p.share'), drawn = charts(), events = eventList(), processes = processTable();
	const siblings = h('p.siblings');
	const ended = h('p', {}, `This tenant is not here: it has ended, or is not yours to see. \`mete events --tenant ${tenant}\` tells what has happened to it.`);
	const elsewhere = h('p'), gone = h('div.none', { hidden: true }, ended, elsewhere);
	const content = h('div', {}, why, helps, command, siblings, h('div.columns.story', {}, drawn, h('div', {}, events,
		h('section.panel', {}, h('h2', {}, 'Figures'), list, share), h('section.panel', {}, h('h2', {}, 'Processes'), processes))));
	const root = h('div', {}, h('p.back', {}, h('a', { href: '#/tenants' }, h('span', { 'aria-hidden': 'true' }, '← '), 'All tenants')), h('div.head', {}, title, badge), gone, content);
	root.write = () => {
		const row = store.tenants.get(key), past = store.past.get(key);
		gone.hidden = Boolean(row) || !store.known;
		content.hidden = badge.hidden = !row;
		say(title, row ? row.name : `Tenant ${tenant}`);
		document.title = `mete: ${title.said}`;
		const others = [...store.tenants.values()].filter((other) => other.tenant === tenant && other.device !== device);
		const where = others.map((other) => other.device).join();
		if (!row) {
			ended.hidden = others.length > 0;
			elsewhere.hidden = !others.length;
			if (elsewhere.where !== where)
				elsewhere.replaceChildren(`This tenant is not on GPU ${device}, but on `, ...links(others));
			elsewhere.where = where;
			return;
		}
		const time = row.time, kind = kindOf(row);
		say(badge, KIND_WORDS[kind]);
		mark(badge, 'data-kind', kind);
		mark(why, 'data-kind', kind);
		say(why, row.state);
		helps.write(row, kind !== 'runs' && kind !== 'idle');
		say(command, row.command);
		siblings.hidden = !others.length;
		if (siblings.where !== where)
			siblings.replaceChildren('Also on ', ...links(others));
		siblings.where = where;
		list.write({
			User: row.user, Device: [`GPU ${row.device}`, row.model, boardWords(store.devices.get(row.device) || {})].filter(Boolean).join(', '), Memory: bytes(row.used_bytes), Limit: bytes(row.limit_bytes),
			'On the device': bytes(row.used_bytes - row.out_bytes), 'In the host’s memory': bytes(row.out_bytes), 'Most it held': bytes(row.peak_bytes),
			'Time, last second': time.by_turns ? `${percent(time.charged_1s_ns / 1e9)} of ${percent(time.entitled_1s_ns / 1e9)} due` : 'takes no turns',
			'Time, last minute': time.by_turns ? `${percent(time.charged_60s_ns / 6e10)} of ${percent(time.entitled_60s_ns / 6e10)} due` : 'takes no turns',
			Turns: String(time.turns), 'Longest wait': time.waits ? waited(time.longest_wait_ns) : 'none',
			Refused: plural(row.refusals, 'time', 'times'), 'For how long': duration(row.age_ns + (performance.now() - row.seenAt) * 1e6),
		});
		say(share, row.share ? `Share: ${row.share}` : 'Share: as by default');
		drawn.write(row, past);
		events.write(past.events);
		processes.write(row.processes);
	};
	return root;
}
