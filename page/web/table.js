/* SPDX-License-Identifier: Apache-2.0 */
/* The tenants, sorted and filtered. Of a thousand rows those exist that can be seen, and some around them. */

const AROUND = 8;
const COLUMNS = [
	{ id: 'name', title: 'Tenant', of: (row) => row.name },
	{ id: 'user', title: 'User', of: (row) => row.user },
	{ id: 'device', title: 'GPU', of: (row) => row.device },
	{ id: 'used', title: 'Memory', of: (row) => row.used_bytes, down: true },
	{ id: 'limit', title: 'Limit', of: (row) => row.limit_bytes, down: true },
	{ id: 'time', title: 'Time', of: (row) => row.time.charged_1s_ns, down: true },
	{ id: 'state', title: 'What it does', of: (row) => `${['bad', 'waits', 'away', 'runs', 'idle'].indexOf(kindOf(row))}${row.state}` },
];

/* As `mete ps --filter` has them: with these a whole name or number is meant, and not a part of one. */
const onDevice = (row, value) => value === String(row.device) || row.device_uuid.toLowerCase().startsWith(value.toLowerCase());
const EXACTLY = {
	user: (row, value) => value === row.user || value === String(row.uid),
	tenant: (row, value) => value === row.name || value === String(row.tenant),
	gpu: onDevice,
	device: onDevice,
};

/* Whether a row has all that was typed; null: nothing was. */
function filterOf(typed) {
	const words = typed.split(/[\s,]+/).filter(Boolean).map((word) => {
		const [, key, value] = /^(\w+)=(.+)$/.exec(word) || [];
		if (key && Object.hasOwn(EXACTLY, key))
			return (row) => EXACTLY[key](row, value);
		const part = word.toLowerCase();
		return (row, text) => text().includes(part);
	});
	return words.length ? (row) => {
		const text = () => `${row.name} ${row.user} gpu${row.device} ${row.command} ${row.state} ${row.doing}`.toLowerCase();
		return words.every((fits) => fits(row, text));
	} : null;
}

function tableRow() {
	const name = h('a', { tabindex: '-1' }), used = h('i'), time = h('i'), due = h('b');
	const cells = COLUMNS.map((column) => h(`div.cell.${column.id}`, { role: 'cell' }));
	const [nameCell, user, device, usedCell, limit, timeCell, state] = cells;
	const usedText = h('span'), timeText = h('span');
	nameCell.append(name);
	usedCell.append(usedText, h('div.meter.small', { 'aria-hidden': 'true' }, used));
	timeCell.append(timeText, h('div.meter.small', { 'aria-hidden': 'true' }, time, due));
	const element = h('div.row', { role: 'row' }, ...cells);
	element.link = name;
	element.write = (row, index) => {
		element.key = keyOf(row);
		say(name, row.name);
		mark(name, 'href', linkOf(row));
		say(user, row.user);
		say(device, `GPU ${row.device}`);
		say(usedText, bytes(row.used_bytes));
		wide(used, row.used_bytes / row.limit_bytes);
		mark(used, 'class', row.over_bytes ? 'over' : 'used');
		say(limit, bytes(row.limit_bytes));
		say(timeText, row.time.by_turns ? percent(row.time.charged_1s_ns / 1e9) : '–');
		wide(time, row.time.charged_1s_ns / 1e9);
		due.hidden = !row.time.by_turns;
		due.style.left = `${Math.min(100, row.time.entitled_1s_ns / 1e7)}%`;
		say(state, row.state);
		mark(element, 'data-kind', kindOf(row));
		mark(element, 'aria-rowindex', index + 2);
	};
	return element;
}

/* `typed`: what the filter begins with. */
function tenants(typed = '') {
	const sort = { column: COLUMNS[6], down: false };
	const filter = h('input', { id: 'filter', type: 'search', placeholder: 'name, user=alice, gpu=0, waits …', value: typed, autocomplete: 'off', spellcheck: 'false' });
	const count = h('p.count'), heard = h('p.unseen', { role: 'status' });
	const heads = COLUMNS.map((column) => h(`div.cell.${column.id}`, { role: 'columnheader', 'aria-sort': 'none' },
		h('button', { type: 'button', onclick: () => sortBy(column) }, column.title)));
	const body = h('div.rows', { role: 'rowgroup' }), space = h('div.space');
	const table = h('div.table', { role: 'table', 'aria-label': 'Tenants' }, h('div', { role: 'rowgroup' }, h('div.row.headings', { role: 'row', 'aria-rowindex': '1' }, ...heads)), body);
	const choice = h('select', { id: 'sort', onchange: () => sortBy(COLUMNS.find((column) => column.id === choice.value)) },
		...COLUMNS.map((column) => h('option', { value: column.id }, column.title)));
	const root = h('div.tenants', {}, h('div.head', {}, h('h1', {}, 'Tenants'), h('label', { for: 'filter' }, 'Filter'), filter,
		h('label.narrow', { for: 'sort' }, 'Sort'), choice, count, heard), table, space);
	let shown = [], pool = [], active = 0, height = 0, printing = false;

	function sortBy(column) {
		sort.down = sort.column === column ? !sort.down : Boolean(column.down);
		sort.column = column;
		store.moved = true;
		root.write();
	}

	function arrange() {
		const fits = filterOf(filter.value), all = [...store.tenants.values()];
		const up = sort.down ? -1 : 1, of = sort.column.of;
		const keyed = (fits ? all.filter(fits) : all).map((row) => [of(row), row]);
		keyed.sort(([a, x], [b, y]) => (a < b ? -up : a > b ? up : x.tenant - y.tenant || x.device - y.device));
		shown = keyed.map(([, row]) => row);
		say(count, shown.length === store.tenants.size ? plural(shown.length, 'row', 'rows') : `${shown.length} of ${plural(store.tenants.size, 'row', 'rows')}`);
		COLUMNS.forEach((column, i) => mark(heads[i], 'aria-sort', column === sort.column ? (sort.down ? 'descending' : 'ascending') : 'none'));
		choice.value = sort.column.id;
		mark(table, 'aria-rowcount', shown.length + 1);
		active = Math.max(0, Math.min(active, shown.length - 1));
	}

	function window_() {
		if (printing)
			return [0, shown.length];
		const top = -body.getBoundingClientRect().top;
		const first = Math.max(0, Math.floor(top / height) - AROUND);
		return [first, Math.min(shown.length, first + Math.ceil(innerHeight / height) + 2 * AROUND)];
	}

	function draw() {
		if (!root.isConnected)
			return;
		if (!height && shown.length) {
			pool[0] = pool[0] || body.appendChild(tableRow());
			pool[0].write(shown[0], 0);
			height = pool[0].getBoundingClientRect().height;
		}
		const [first, end] = height ? window_() : [0, 0];
		body.style.height = `${shown.length * height}px`;
		for (let i = 0; i < Math.max(pool.length, end - first); i++) {
			const row = pool[i] || (pool[i] = body.appendChild(tableRow()));
			row.hidden = i >= end - first;
			if (row.hidden)
				continue;
			row.index = first + i;
			row.write(shown[first + i], first + i);
			row.style.transform = `translateY(${(first + i) * height}px)`;
			mark(row.link, 'tabindex', first + i === active ? 0 : -1);
		}
		/* Someone who comes by Tab finds a row, wherever the list stands. */
		if (active < first || active >= end) {
			const row = pool.find((one) => !one.hidden);
			if (row && !body.contains(document.activeElement)) {
				active = row.index;
				mark(row.link, 'tabindex', 0);
			}
		}
	}

	function go(to) {
		active = Math.max(0, Math.min(shown.length - 1, to));
		const top = body.getBoundingClientRect().top + scrollY + active * height;
		if (top < scrollY + 130)
			scrollTo(0, top - 130);
		else if (top + height > scrollY + innerHeight - 10)
			scrollTo(0, top + height - innerHeight + 10);
		draw();
		const row = pool.find((one) => !one.hidden && one.index === active);
		if (row)
			row.link.focus({ preventScroll: true });
	}

	body.addEventListener('keydown', (event) => {
		const page = Math.max(1, Math.floor(innerHeight / height) - 3);
		const to = { ArrowDown: active + 1, ArrowUp: active - 1, PageDown: active + page, PageUp: active - page, Home: 0, End: shown.length - 1 }[event.key];
		if (to === undefined || event.ctrlKey || event.altKey || event.metaKey)
			return;
		event.preventDefault();
		go(to);
	});
	filter.addEventListener('input', () => {
		active = 0;
		arrange();
		draw();
		say(heard, count.textContent); /* once, and not whenever somebody comes or goes */
	});
	root.onscroll_ = draw;
	root.onresize_ = () => {
		height = 0;
		draw();
	};
	/* Paper has no window through which it looks. */
	root.onprint_ = (begins) => {
		printing = begins;
		draw();
		while (!printing && pool.length && pool[pool.length - 1].hidden)
			pool.pop().remove();
	};
	root.focusFilter = () => filter.focus();
	root.write = () => {
		/* Somebody who walks through the rows does not lose his place to those that come and go. */
		const held = body.contains(document.activeElement) && shown[active];
		arrange();
		if (held) {
			const at = shown.findIndex((row) => keyOf(row) === keyOf(held));
			active = at >= 0 ? at : active;
		}
		draw();
		if (held) {
			const row = pool.find((one) => !one.hidden && one.index === active);
			if (row && document.activeElement !== row.link)
				row.link.focus({ preventScroll: true });
		}
	};
	return root;
}
