// A user's notifications, live: docs/inbox-on-your-page.md
import { listen, renew, settingsOf } from "./campanile-badge.js";

const names = "token badge reset notification.created notification.updated notification.deleted notifications.read_all".split(" ");

const keys = "list all read unread delete dot more loading empty error retry signed-out new".split(" ");
const shipped = {
	en: "Notifications|Mark all as read|Mark as read|Mark as unread|Delete|Unread|Show more|Loading…|Nothing here yet.|That didn’t work.|Try again|You are signed out.|{count} new",
	ko: "알림|모두 읽음으로 표시|읽음으로 표시|읽지 않음으로 표시|삭제|읽지 않음|더 보기|불러오는 중…|알림이 없습니다.|처리하지 못했습니다.|다시 시도|로그아웃되었습니다.|새 알림 {count}개",
};

const sheet = new CSSStyleSheet();
sheet.replaceSync(`:host{display:block;--a:var(--campanile-accent,light-dark(#1d4ed8,#93b4ff));--l:var(--campanile-line,#8884)}
:host([hidden]),[hidden]{display:none!important}
.bar{display:flex}.all{margin-inline-start:auto}
.entry{display:grid;grid:auto/1rem minmax(0,1fr) auto auto;padding:.5rem 0;border-bottom:1px solid var(--l)}
.dot{visibility:hidden;width:.6rem;height:.6rem;margin-top:.4em;border-radius:50%;background:var(--a)}.unread .dot{visibility:visible}.unread .title{font-weight:600}
.title,.body,.time{unicode-bidi:isolate;text-align:match-parent;overflow-wrap:anywhere;color:inherit}.body{margin:0;white-space:pre-line}
.time{display:block;font-size:.875em;opacity:.75}
.state{position:sticky;bottom:0;padding:1rem;text-align:center;background:Canvas;color:CanvasText}.more{display:block;margin:auto}
button{font:inherit;color:inherit;background:none;border:0;min-width:44px;min-height:44px;align-self:start}
.news{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}`);

function make(name, part, properties, ...children) {
	const node = Object.assign(document.createElement(name), properties);
	node.className = node.part = part;
	node.append(...children);
	return node;
}

function makeInbox(host) {
	const entries = new Map();
	const rows = new Map();
	let token = "";
	let news = null;
	let stream, known, end, told, cursor, failed, refused, isLoaded, lang, timer, quiet;

	// A retry asks for the same.
	const button = (name, work, on) => make("button", `button ${name}`, { name, onclick: () => run(work, on?.()) });
	const all = button("all", async (up_to) => {
		await call("POST", "/mark_all_read", { up_to });
		apply("read_all", { up_to });
	}, () => list.firstChild.ids[0]);
	const more = button("more", () => older(true));
	const retry = make("button", "button retry", { name: "retry", onclick() {
		list.focus();
		refused = null;
		again();
	} });
	const list = make("div", "list", { role: "list", tabIndex: -1 });
	const words = make("slot", "words");
	const state = make("div", "state", {}, words, retry);
	const live = make("div", "news", { role: "status" });
	const root = host.attachShadow({ mode: "open" });
	root.adoptedStyleSheets = [sheet];
	root.append(make("div", "bar", {}, make("slot", "", { name: "title" }), all), list, state, more, live);
	const sight = new IntersectionObserver(look, { rootMargin: "600px", scrollMargin: "600px" });

	const text = (key) => host.getAttribute(`text-${key}`) ?? (shipped[lang.split("-")[0]] ?? shipped.en).split("|")[keys.indexOf(key)];
	const label = (node, key) => (node.ariaLabel = node.title = text(key));

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
		const title = make("a", "title", { dir: "auto", onclick: deep_link && (() => change(id, true).catch(() => {})) });
		const time = make("time", "time", { dateTime: created_at, dir: "auto" });
		const mark = button("mark", (read) => change(id, read), () => !entries.get(id).read_at);
		const remove = button("delete", async () => {
			node.isMine = true;
			await call("DELETE", `/${id}`);
			drop(id);
		});
		label(remove, "delete");
		remove.textContent = "×";
		const node = make("div", "", { role: "listitem", tabIndex: -1 },
			make("div", "dot", { role: "img", ariaLabel: text("dot") }),
			make("div", "content", {}, title, make("p", "body", { dir: "auto" }), time), mark, remove);
		rows.set(id, node);
		draw(id);
		drawTime(time);
		if (!host.onentry?.(node, entries.get(id)) && deep_link) import("./campanile-links.js").then(({ lead }) => lead(title, deep_link, stream, token));
		return node;
	}

	function draw(id) {
		const node = rows.get(id);
		if (!node) return;
		const { title, body, read_at } = entries.get(id);
		const [, { children: [head, words] }, mark] = node.children;
		node.className = node.part = read_at ? "entry" : "entry unread";
		head.textContent = title;
		words.textContent = body;
		mark.textContent = read_at ? "○" : "✓";
		label(mark, read_at ? "unread" : "read");
	}

	function drawTime(node) {
		const date = new Date(node.dateTime);
		let age = Math.max(0, Date.now() - date) / 6e4;
		for (const [unit, size] of Object.entries({ second: 1, minute: 60, hour: 24, day: 7 })) {
			if (age < size) return (node.textContent = new Intl.RelativeTimeFormat(lang, { numeric: "auto" }).format(-Math.floor(age), unit));
			age /= size;
		}
		node.textContent = date.toLocaleDateString(lang, { dateStyle: "medium" });
	}

	// Blocks out of sight keep their height.
	function look(seen) {
		for (const { target, isIntersecting } of seen) {
			target.isSeen = isIntersecting;
			// Else no keyboard reaches the end.
			if (isIntersecting && target === more && !root.querySelector(":focus-visible")) run(older);
		}
		for (const block of list.children) {
			const { ids, isSeen, style } = block;
			// Hidden, it has no height.
			if (isSeen === !!block.firstChild || block.contains(root.activeElement) || !list.offsetHeight) continue;
			style.height = isSeen ? "" : `${block.offsetHeight}px`;
			if (!isSeen) ids.forEach((id) => rows.delete(id));
			block.replaceChildren(...(isSeen ? ids.map(row) : []));
		}
	}

	const blockOf = (id) => [...list.children].find((one) => one.ids.at(-1) <= id);

	// True for a new one.
	function put(entry) {
		const { id, edited_at } = entry;
		const old = entries.get(id);
		if (!old && cursor && id < list.lastChild?.ids.at(-1)) return;
		entries.set(id, entry);
		if (old) return old.edited_at === edited_at ? draw(id) : rows.get(id)?.replaceWith(row(id));
		const next = blockOf(id) ?? null;
		let block = next?.ids[0] > id ? next : [next ? next.previousSibling : list.lastChild, next].find((one) => one?.ids.length < 25);
		if (!block) {
			block = make("div", "", { ids: [], isSeen: true });
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
		const near = [...list.querySelectorAll(".entry")];
		const at = near.indexOf(node);
		const next = node?.contains(root.activeElement) && (near[at + 1] ?? near[at - 1] ?? list);
		block.ids.splice(block.ids.indexOf(id), 1);
		rows.delete(id);
		node?.remove();
		if (!block.ids.length) block.remove();
		if (!list.firstChild) say();
		// After a press only.
		if (next) ((node.isMine && next.querySelector(".delete")) || next).focus();
	}

	async function call(method, path, body) {
		const used = token;
		const headers = { authorization: `Bearer ${used}`, "content-type": "application/json" };
		const answer = await fetch(new URL("/notifications" + path, stream), { method, headers, body: JSON.stringify(body), keepalive: !!body });
		if (answer.ok) return answer.status === 204 || answer.json();
		if (answer.status === 401) {
			if (used !== token) return call(method, path, body);
			refuse();
		}
		if (answer.status !== 404 || (await answer.json()).code !== "not_found") throw answer.status;
	}

	async function change(id, read) {
		const before = entries.get(id);
		const changed = await call("PATCH", `/${id}`, { read });
		if (!changed) drop(id);
		// It may be newer.
		else if (entries.get(id) === before) put(changed);
	}

	async function run(work, on) {
		failed = null;
		try {
			await work(on);
			if (isLoaded) say();
		} catch (status) {
			failed = () => run(work, on);
			if (status !== 401) say("error");
		}
	}

	const again = () => (say("loading"), failed ? failed() : refuse());

	async function ask(query) {
		const mine = (told = []);
		try {
			const page = await call("GET", `?limit=50${query}`);
			if (mine !== told) return;
			if (!query) empty();
			cursor = null;
			page.notifications.forEach(put);
			cursor = page.next_cursor;
			isLoaded = true;
			// The page may be older.
			told.forEach((one) => apply(...one));
			// Anew, it tells again.
			sight.unobserve(more);
			sight.observe(more);
			return page.notifications[0]?.id;
		} finally {
			if (mine === told) told = null;
		}
	}

	const load = () => run(ask, "");

	async function older(isAsked) {
		if (told) return;
		const first = await ask(`&cursor=${cursor}`);
		if (isAsked) (rows.get(first) ?? list).focus();
	}

	function empty() {
		entries.clear();
		rows.clear();
		list.replaceChildren();
	}

	function clear() {
		told = cursor = failed = refused = isLoaded = null;
		token = "";
		empty();
		say("loading");
	}

	function refuse() {
		const isNew = refused !== token;
		refused = token;
		if (isNew && host.getAttribute("token-src")) renew(stream);
		else say("signed-out");
		if (isNew) host.dispatchEvent(new CustomEvent("campanile:token", { bubbles: true, composed: true }));
	}

	function apply(what, data) {
		if (what === "deleted") drop(data.id);
		else if (what === "read_all") {
			for (const one of entries.values()) if (!one.read_at && !(one.id > data.up_to)) put({ ...one, read_at: true });
		} else if (put(data) && what === "created") {
			news += 1;
			quiet ??= setTimeout(() => {
				live.textContent = text("new").replace("{count}", news);
				quiet = news = null;
			}, 5000);
		}
		if (words.name === "empty") say();
	}

	function hear(name, data) {
		const what = name.split(".")[1];
		if (name === "token") {
			token = data;
			failed && again();
		} else if (name === "clear") clear();
		else if (name === "wait" ? data === 401 : name === "open" && !token) refuse();
		else if (name === "wait") isLoaded || told || (token ? load() : say("error"));
		// Resumed, or with a new token.
		else if (name === "open" && isLoaded && (data || !end)) failed || say();
		else if (name === "open" || name === "reset") load();
		else if (what) {
			told?.push([what, data]);
			if (isLoaded) apply(what, data);
		}
	}

	return () => {
		const { address, token: given, tokenSrc } = settingsOf(host);
		const key = host.isConnected && [address, given, tokenSrc].join();
		if (key === known) return;
		const before = known;
		known = key;
		clearInterval(timer);
		end = end?.();
		if (!key) return (isLoaded = false);
		lang = "en";
		try {
			[lang] = Intl.getCanonicalLocales(host.closest("[lang]")?.lang || navigator.language);
		} catch {}
		list.ariaLabel = text("list");
		for (const node of [all, more, retry]) node.textContent = text(node.name);
		timer = setInterval(() => root.querySelectorAll("time").forEach(drawTime), 3e4);
		const who = given || tokenSrc;
		if (stream !== address || !who) clear();
		stream = address;
		if (given) hear("token", given);
		// Taken away, it ends for badges too.
		if (before || who) end = listen(stream, { token: who ? given : null, tokenSrc, isBack: isLoaded }, names, hear);
		who || refuse();
	};
}

customElements.define("campanile-inbox", class extends HTMLElement {
	static observedAttributes = ["src", "token", "token-src"];
	update = makeInbox(this);
	connectedCallback() { this.update(); }
	attributeChangedCallback() { this.update(); }
	disconnectedCallback() { queueMicrotask(this.update); }
});
