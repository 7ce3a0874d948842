// For <campanile-inbox>: the pages of deep links, by the tree that `GET /deep_links` gives. See docs/deep-links.md.
import { claimsOf } from "./campanile-badge.js";

const encoded = (text) => encodeURIComponent(text).replace(/[!'()*]/g, (one) => `%${one.charCodeAt().toString(16).toUpperCase()}`);
const lastOf = (path) => path.slice(path.lastIndexOf("/") + 1);

// The page of a node, with the link's values in the place of parameters.
function filled(web, values) {
	const [, path, rest] = /^([^?#]*)(.*)$/s.exec(web);
	const segments = path.replace(/^\/?/, "/").split("/");
	return segments.map((one) => (one[0] === ":" && values.has(one) ? encoded(values.get(one)) : one)).join("/") + rest;
}

// The address of a link's page, or of the deepest page above it that the tree knows. Without one, nothing.
function address(tree, link) {
	const [, path, query, fragment] = /^\/?([^?#]*)(\?[^#]*)?(#.*)?$/s.exec(link);
	if (!tree.length) return `/${path}${query ?? ""}${fragment ?? ""}`;
	const values = new Map();
	let [level, found, walked] = [tree, "", ""];
	for (const written of path.split("/")) {
		const segment = decodeURIComponent(written);
		const isNamed = (name) => ({ path }) => lastOf(path) === name;
		const node = level.find(isNamed(segment)) ?? (segment && level.find((one) => lastOf(one.path)[0] === ":"));
		if (!node) return found;
		const name = lastOf(node.path);
		if (name[0] === ":") values.set(name, segment);
		walked += `/${written}`;
		found = node.web ? filled(node.web, values) : walked;
		level = node.children;
	}
	const [page, own = ""] = found.split(/(?=#)/);
	const added = query?.length > 1 ? (page.includes("?") ? "&" : "?") + query.slice(1) : "";
	return page + added + (fragment ?? own);
}

const trees = new Map(); // by address

async function fetchTree(url) {
	const answer = await fetch(url);
	if (!answer.ok) throw answer.status;
	return (await answer.json()).deep_links;
}

// Makes an element lead to the link's page on the page's own site. Without a tree it waits for the next element to ask for it.
export async function lead(node, link, server, token) {
	const { app } = claimsOf(token);
	const url = new URL(`/deep_links${app ? `?app=${encodeURIComponent(app)}` : ""}`, server).href;
	if (!trees.has(url)) trees.set(url, fetchTree(url));
	const tree = await trees.get(url).catch(() => trees.delete(url) && null);
	try {
		const page = new URL(address(tree, link), origin);
		if (page.origin === origin) node.href = page.href;
	} catch {}
}
