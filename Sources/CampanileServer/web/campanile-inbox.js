// <campanile-inbox>: a user's notifications, live. See docs/inbox-on-your-page.md.
import { listen, renew, settingsOf } from "./campanile-badge.js";

const blockSize = 25; // entries that come into the page and leave it together
const names = ["token", "reset", "notification.created", "notification.updated", "notification.deleted", "notifications.read_all"];

const keys = ["list", "all", "read", "unread", "delete", "dot", "more", "loading", "empty", "error", "retry", "signed-out", "new"];
const shipped = {
	en: "Notifications|Mark all as read|Mark as read|Mark as unread|Delete|Unread|Show more|Loading…|Nothing here yet.|That didn’t work.|Try again|You are signed out.|{count} new",
	ko: "알림|모두 읽음으로 표시|읽음으로 표시|읽지 않음으로 표시|삭제|읽지 않음|더 보기|불러오는 중…|알림이 없습니다.|처리하지 못했습니다.|다시 시도|로그아웃되었습니다.|새 알림 {count}개",
};

const sheet = new CSSStyleSheet();
sheet.replaceSync(`:host{display:block;--a:var(--campanile-accent,light-dark(#1d4ed8,#93b4ff));--l:var(--campanile-line,#8884)}
:host([hidden]),[hidden]{display:none!important}
.bar{display:flex}.head{display:block;flex:1}
.entry{display:grid;grid:auto/1rem minmax(0,1fr) auto auto;padding:.5rem 0;border-bottom:1px solid var(--l)}
.dot{visibility:hidden;width:.6rem;height:.6rem;margin-top:.4em;border-radius:50%;background:var(--a)}.unread .dot{visibility:visible}.unread .title{font-weight:600}
.title,.body{unicode-bidi:isolate;overflow-wrap:anywhere;color:inherit}.body{margin:0;white-space:pre-line}
.time{display:block;font-size:.875em;opacity:.75}
.state{position:sticky;bottom:0;padding:1rem;text-align:center;background:Canvas;color:CanvasText}.more{display:block;margin:auto}
button{font:inherit;color:inherit;background:none;border:0;border-radius:.4rem;min-width:2.75rem;min-height:2.75rem;align-self:start}
button:hover{background:var(--l)}:focus-visible{outline:2px solid var(--a);outline-offset:-2px}
.news{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}`);

function make(name, part, properties, ...children) {
	const node = Object.assign(document.createElement(name), properties);
	node.className = node.part = part;
	node.append(...children);
	return node;
}

function ago(date, language) {
	let age = Math.max(0, Date.now() - date) / 60_000;
	for (const [unit, size] of [["second", 1], ["minute", 60], ["hour", 24], ["day", 7]]) {
		if (age < size) return new Intl.RelativeTimeFormat(language, { numeric: "auto" }).format(-Math.floor(age), unit);
		age /= size;
	}
	return date.toLocaleDateString(language, { dateStyle: "medium" });
}

function makeInbox(host) {
	const entries = new Map(); // id -> notification
	const rows = new Map(); // id -> its node, while it is in the page
	let [token, news] = ["", 0];
	let stream, known, end, round, told, cursor, failed, refused, isLoaded, language, timer, quiet;

	const button = (name, work) => make("button", `button ${name}`, { name, onclick: () => attempt(work) });
	const all = button("all", async () => {
		// What comes meanwhile stays unread.
		const [up_to] = list.firstChild.ids;
		await call("POST", "/mark_all_read", { up_to });
		readUpTo(up_to);
	});
	const more = button("more", () => older(true));
	const retry = make("button", "button retry", { name: "retry", onclick() {
		list.focus();
		say("loading");
		refused = null;
		failed ? failed() : refuse();
	} });
	const list = make("div", "list", { role: "list", tabIndex: -1 });
	const words = make("slot", "words");
	const state = make("div", "state", {}, words, retry);
	const live = make("div", "news", { role: "status" });
	const root = host.attachShadow({ mode: "open" });
	root.adoptedStyleSheets = [sheet];
	root.append(make("div", "bar", {}, make("slot", "head", { name: "title" }), all), list, state, more, live);
	const sight = new IntersectionObserver(look, { rootMargin: "600px", scrollMargin: "600px" });

	const text = (key) => host.getAttribute(`text-${key}`) ?? (shipped[language.slice(0, 2)] ?? shipped.en).split("|")[keys.indexOf(key)];
	const label = (node, key) => (node.ariaLabel = node.title = text(key));
	const drawTime = (node) => (node.textContent = ago(new Date(node.dateTime), language));

	function say(name = list.firstChild || cursor ? "" : "empty") {
		state.hidden = !name;
		all.hidden = !list.firstChild;
		more.hidden = !cursor;
		words.name = name;
		words.textContent = text(name);
		retry.hidden = name !== "error" && name !== "signed-out";
		if (!retry.hidden) live.textContent = text(name);
	}

	function row(id) {
		const { deep_link, created_at } = entries.get(id);
		const title = make("a", "title", { dir: "auto", onclick: () => title.href && change(id, true).catch(() => {}) });
		const time = make("time", "time", { dateTime: created_at });
		const content = make("div", "content", {}, title, make("p", "body", { dir: "auto" }), time);
		const mark = button("mark", () => change(id, !entries.get(id).read_at));
		const remove = button("delete", async () => {
			node.isErased = true;
			await call("DELETE", `/${id}`);
			drop(id);
		});
		label(remove, "delete");
		remove.textContent = "×";
		const dot = make("div", "dot", { role: "img", ariaLabel: text("dot") });
		const node = make("div", "", { role: "listitem", tabIndex: -1 }, dot, content, mark, remove);
		rows.set(id, node);
		draw(id);
		drawTime(time);
		if (deep_link) import("./campanile-links.js").then(({ lead }) => lead(title, deep_link, stream, token));
		return node;
	}

	function draw(id) {
		const { title, body, read_at } = entries.get(id);
		const node = rows.get(id);
		const [, content, mark] = node.children;
		node.className = node.part = read_at ? "entry" : "entry unread";
		content.children[0].textContent = title;
		content.children[1].textContent = body;
		mark.textContent = read_at ? "○" : "✓";
		label(mark, read_at ? "unread" : "read");
	}

	// Blocks out of sight are empty and keep their height.
	function look(seen) {
		for (const { target, isIntersecting } of seen) {
			target.isSeen = isIntersecting;
			if (!isIntersecting) continue;
			// The keyboard would never come to the end.
			if (target === more) list.querySelector(":focus-visible") || attempt(older);
			else if (!target.firstChild) {
				target.style.height = "";
				target.append(...target.ids.map(row));
			}
		}
		for (const block of list.children) {
			// While the element isn't shown, nothing has a height.
			if (block.isSeen !== false || !block.firstChild || block.contains(root.activeElement) || !list.offsetHeight) continue;
			block.style.height = `${block.offsetHeight}px`;
			block.replaceChildren();
			block.ids.forEach((id) => rows.delete(id));
		}
	}

	const blockOf = (id) => [...list.children].find((one) => one.ids.at(-1) <= id);

	// Newest first: ids grow. True if the entry is new here.
	function put(entry) {
		const { id } = entry;
		const isNew = !entries.has(id);
		if (isNew && cursor && id < list.lastChild?.ids.at(-1)) return;
		entries.set(id, entry);
		if (!isNew) return void (rows.has(id) && draw(id));
		const next = blockOf(id) ?? null;
		let block = next?.ids[0] > id ? next : [next ? next.previousSibling : list.lastChild, next].find((one) => one?.ids.length < blockSize);
		if (!block) {
			block = make("div", "block", { ids: [] });
			list.insertBefore(block, next);
			sight.observe(block);
		}
		const at = block.ids.filter((one) => one > id).length;
		block.ids.splice(at, 0, id);
		if (!block.style.height) block.insertBefore(row(id), block.children[at] ?? null);
		return true;
	}

	function drop(id) {
		if (!entries.delete(id)) return;
		const [block, node] = [blockOf(id), rows.get(id)];
		const hadFocus = node?.contains(root.activeElement);
		const near = [...list.querySelectorAll(".entry")];
		const at = near.indexOf(node);
		block.ids.splice(block.ids.indexOf(id), 1);
		rows.delete(id);
		node?.remove();
		if (!block.ids.length) block.remove();
		if (!list.firstChild) say();
		if (!hadFocus) return;
		// Nobody lands on a button whose entry another page took away.
		const next = near[at + 1] ?? near[at - 1] ?? list;
		((node.isErased && next.querySelector(".delete")) || next).focus();
	}

	function readUpTo(id) {
		for (const one of entries.values()) if (!one.read_at && !(one.id > id)) put({ ...one, read_at: true });
	}

	async function call(method, path, body) {
		const used = token;
		const headers = { authorization: `Bearer ${used}`, "content-type": "application/json" };
		const answer = await fetch(new URL(`/notifications${path}`, stream), { method, headers, body: body && JSON.stringify(body), keepalive: !!body });
		if (answer.ok) return answer.status === 204 || answer.json();
		if (answer.status === 401) {
			if (used !== token) return call(method, path, body);
			refuse();
		}
		if (answer.status !== 404) throw answer.status;
	}

	async function change(id, read) {
		const before = entries.get(id);
		const changed = await call("PATCH", `/${id}`, { read });
		if (!changed) drop(id);
		// What the stream told meanwhile is this change or a later one.
		else if (entries.get(id) === before) put(changed);
	}

	async function attempt(work) {
		failed = null;
		try {
			await work();
			if (isLoaded) say();
		} catch (status) {
			failed = () => attempt(work);
			if (status !== 401) say("error");
		}
	}

	async function ask(query) {
		const mine = (round = {});
		told = [];
		try {
			const page = await call("GET", `?limit=50${query}`);
			if (mine !== round) return;
			if (!query) empty();
			cursor = null;
			page.notifications.forEach(put);
			cursor = page.next_cursor;
			isLoaded = true;
			// The page may be older than what was told meanwhile.
			told.forEach((one) => apply(...one));
			// It tells only changes: asked anew, it tells as well if the end is still in sight.
			sight.unobserve(more);
			sight.observe(more);
			return page.notifications[0]?.id;
		} finally {
			if (mine === round) round = told = null;
		}
	}

	const load = () => attempt(() => ask(""));

	async function older(isAsked) {
		if (round) return;
		const first = await ask(`&cursor=${cursor}`);
		if (isAsked) (rows.get(first) ?? list).focus();
	}

	function empty() {
		entries.clear();
		rows.clear();
		list.replaceChildren();
	}

	function clear() {
		round = told = cursor = failed = isLoaded = null;
		token = "";
		empty();
		say("loading");
	}

	function take(fresh) {
		token = fresh;
		failed?.();
	}

	function refuse() {
		const isNew = refused !== token;
		refused = token;
		if (isNew && host.getAttribute("token-src")) renew(stream);
		else say("signed-out");
		if (isNew) host.dispatchEvent(new CustomEvent("campanile:token", { bubbles: true, composed: true }));
	}

	function apply(name, data) {
		if (name === "notification.deleted") drop(data.id);
		else if (name === "notifications.read_all") readUpTo(data.up_to);
		else if (put(data) && name === "notification.created") {
			news += 1;
			quiet ??= setTimeout(() => {
				live.textContent = text("new").replace("{count}", news);
				[quiet, news] = [null, 0];
			}, 5000);
		}
		if (words.name === "empty") say();
	}

	function hear(name, data) {
		if (name === "token") take(data);
		else if (name === "clear") clear();
		else if (name === "wait" ? data === 401 : name === "open" && !token) refuse();
		else if (name === "wait") isLoaded || round || (token ? load() : say("error"));
		// Nothing was missed: it resumes, or the same user brings the next token.
		else if (name === "open" && isLoaded && (data || !end)) say();
		else if (name === "open" || name === "reset") load();
		else {
			told?.push([name, data]);
			if (isLoaded) apply(name, data);
		}
	}

	return () => {
		const { address, token: given, tokenSrc } = settingsOf(host);
		const key = host.isConnected && [address, given, tokenSrc].join();
		if (key === known) return;
		const isFirst = !known;
		known = key;
		clearInterval(timer);
		end = end?.();
		if (!key) return void (isLoaded = false);
		try {
			[language] = Intl.getCanonicalLocales(host.closest("[lang]")?.lang || navigator.language);
		} catch {
			language = "en";
		}
		list.ariaLabel = text("list");
		for (const node of [all, more, retry]) node.textContent = text(node.name);
		timer = setInterval(() => root.querySelectorAll("time").forEach(drawTime), 30_000);
		const isNobodys = !given && !tokenSrc;
		if (stream !== address || isNobodys) clear();
		stream = address;
		refused = null;
		if (given) take(given);
		if (!isLoaded) say("loading");
		// A token that was taken away ends the stream for the badges that share it.
		if (!isFirst || !isNobodys) end = listen(stream, { token: isNobodys ? null : given, tokenSrc }, names, hear);
		if (isNobodys) refuse();
	};
}

customElements.define("campanile-inbox", class extends HTMLElement {
	static observedAttributes = ["src", "token", "token-src"];
	update = makeInbox(this);
	connectedCallback() { this.update(); }
	attributeChangedCallback() { this.update(); }
	disconnectedCallback() { queueMicrotask(this.update); }
});
