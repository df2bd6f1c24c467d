/* SPDX-License-Identifier: Apache-2.0 */
/* Which view is shown, how the page looks, and who is let in. */

const $ = (id) => document.getElementById(id);
const timing = { first: 0, updates: [] };
window.mete = { store, timing };

let view = null, where = null, drawing = false, since = 0;

let denied = false;

/* As people type it: where it is no text, as it stands. */
function plainly(address) {
	try {
		return decodeURIComponent(address);
	} catch {
		return address;
	}
}

/* The name of the view at an address, and what makes it. */
function viewAt(address) {
	const [first, ...parts] = address.replace(/^#\/?/, '').split('/');
	const views = { '': ['overview', overview], devices: ['devices', devices], tenants: ['tenants', () => tenants()] };
	if (first === 'tenant' && parts.length === 2 && parts.every((part) => /^\d+$/.test(part)))
		return ['tenant', () => story(Number(parts[0]), Number(parts[1]))];
	if (first === 'tenant' && parts.join(''))
		return ['tenant', () => tenantCalled(plainly(parts.join('/')))];
	if (first === 'tenants' && parts.length === 1 && /^\w+=./.test(plainly(parts[0])))
		return ['tenants', () => tenants(plainly(parts[0]))];
	if (!parts.length && Object.hasOwn(views, first))
		return views[first];
	return ['not here', () => nowhere(`Nothing is shown at ${plainly(address)}.`)];
}

function openView() {
	if (denied)
		return;
	if (location.hash === where)
		return;
	where = location.hash;
	const [name, make] = viewAt(where);
	view = make();
	$('view').replaceChildren(view);
	view.querySelector('h1').tabIndex = -1;
	for (const link of document.querySelectorAll('nav a'))
		mark(link, 'aria-current', link.dataset.view === name || (name === 'tenant' && link.dataset.view === 'tenants') ? 'page' : null);
	document.title = name === 'overview' ? 'mete' : `mete: ${name}`;
	scrollTo(0, 0);
	if (store.known)
		view.write();
	else
		view.hidden = true;
}

function writeAround() {
	const trouble = store.meted && store.meted.trouble;
	$('trouble').hidden = !trouble;
	say($('trouble'), trouble || '');
	say($('about'), store.meted ? `meted ${store.meted.version}, process ${store.meted.pid}. ${store.sees === 'all' ? 'You see all tenants.' : `You see the tenants of ${store.viewer}.`} Nothing can be changed here.` : '');
}

function draw() {
	drawing = false;
	view.hidden = false;
	view.write();
	writeAround();
	store.changed.clear();
	store.moved = false;
	timing.updates.push(performance.now() - since);
	if (timing.updates.length > 120)
		timing.updates.shift();
	if (!timing.first)
		timing.first = performance.now();
}

/* However much comes at once, it is drawn once. Hidden pages are not drawn, but keep their history. */
function changed(from) {
	look();
	if (drawing)
		return;
	drawing = true;
	since = from;
	requestAnimationFrame(draw);
}

/* In a second without news, time goes on all the same. */
setInterval(() => {
	if (store.known && !denied && performance.now() - store.lookedAt > 1300)
		changed(performance.now());
}, 500);

const STATES = { live: 'live', waits: 'meted does not answer', full: 'too many viewers: waiting for a place', denied: 'a token is needed' };

function tell(state) {
	mark($('state'), 'data-state', state);
	say($('state-text'), STATES[state]);
	store.live = state === 'live';
	denied = state === 'denied';
	if (denied)
		askToken();
}

/* What a tab or a browser keeps; nothing, where it was told to keep nothing. */
function recall(storage, name) {
	try {
		return window[storage].getItem(name);
	} catch {
		return null;
	}
}

function keep(storage, name, value) {
	try {
		window[storage].setItem(name, value);
	} catch {
		/* then it is asked for again */
	}
}

/* It is sent as a header, and stands in no address. */
const token = () => recall('sessionStorage', 'mete-token');

/* One tenant as `/v1/tenants/` has it; null, where that says nothing. */
async function askTenant(number) {
	const headers = token() ? { Authorization: `Bearer ${token()}` } : {};
	const answer = await fetch(`v1/tenants/${number}`, { headers, cache: 'no-store', credentials: 'omit' });
	return answer.ok ? answer.json() : null;
}

function takeToken() {
	const found = /^#token=(.+)$/.exec(location.hash);
	if (!found)
		return;
	history.replaceState(null, '', location.pathname);
	try {
		keep('sessionStorage', 'mete-token', decodeURIComponent(found[1]));
	} catch {
		keep('sessionStorage', 'mete-token', found[1]);
	}
}

function askToken() {
	const input = h('input', { id: 'token', type: 'password', autocomplete: 'current-password', required: true });
	const form = h('form.login', {}, h('h1', {}, 'Sign in'), h('p', {}, token() ? 'meted does not know this token.' : 'meted wants to know who asks.'),
		h('label', { for: 'token' }, 'Token'), input, h('button', { type: 'submit' }, 'Show'));
	form.addEventListener('submit', (event) => {
		event.preventDefault();
		keep('sessionStorage', 'mete-token', input.value.trim());
		location.reload();
	});
	view = form;
	view.write = () => {};
	$('view').replaceChildren(form);
	input.focus();
}

const THEMES = { '': 'as the system has them', light: 'light', dark: 'dark' };

function setTheme(theme) {
	mark(document.documentElement, 'data-theme', theme || null);
	mark($('theme'), 'aria-label', `Colours: ${THEMES[theme]}`);
	keep('localStorage', 'mete-theme', theme);
}

function nextTheme() {
	const all = Object.keys(THEMES);
	setTheme(all[(all.indexOf(document.documentElement.dataset.theme || '') + 1) % all.length]);
}

addEventListener('hashchange', () => {
	openView();
	/* So that its name is read, and what follows it is next. */
	view.querySelector('h1').focus({ preventScroll: true });
});
addEventListener('scroll', () => view.onscroll_ && view.onscroll_(), { passive: true });
addEventListener('resize', () => view.onresize_ && view.onresize_());
addEventListener('beforeprint', () => view.onprint_ && view.onprint_(true));
addEventListener('afterprint', () => view.onprint_ && view.onprint_(false));
addEventListener('keydown', (event) => {
	if (event.key === '/' && view.focusFilter && !/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
		event.preventDefault();
		view.focusFilter();
	}
	if (event.key === 'Escape' && location.hash.startsWith('#/tenant/'))
		location.hash = '#/tenants';
});
document.querySelector('.skip').addEventListener('click', (event) => {
	event.preventDefault();
	$('main').focus();
});
$('theme').addEventListener('click', nextTheme);
takeToken();
const kept = recall('localStorage', 'mete-theme');
setTheme(Object.hasOwn(THEMES, kept) ? kept : '');
openView();
follow(token, tell, changed);
