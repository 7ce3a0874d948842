// A page of another origin than the server's: #server and the user's token stand behind the address.

const { server, token } = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
await import(new URL("/assets/campanile-badge.js", server));

const badge = document.createElement("campanile-badge");
for (const [name, value] of Object.entries({ id: "badge", src: new URL("/badge/stream", server), token, "document-title": "" })) {
  badge.setAttribute(name, value);
}
document.getElementById("place").append(badge);

window.markAllRead = async () => {
  const answer = await fetch(new URL("/notifications/mark_all_read", server), {
    method: "POST", headers: { authorization: `Bearer ${token}` },
  });
  return answer.status;
};
