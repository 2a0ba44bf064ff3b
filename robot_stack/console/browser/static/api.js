// Questions to the server, with the token where one is asked for; a refusal is an error whose text is for people.
import { tokenIn, tokenOfAddress } from "./link.js";

let token = tokenOfAddress() || sessionStorage.getItem("token") || "";
sessionStorage.setItem("token", token);

export class TokenNeeded extends Error {}

export function useToken(text) {
  token = tokenIn(text);
  sessionStorage.setItem("token", token);
}

async function ask(path, options = {}) {
  const used = token;
  let answer;
  try {
    answer = await fetch(path, { ...options, headers: { ...options.headers, Authorization: `Bearer ${used}` } });
  } catch (error) {
    throw new Error("the server does not answer; is the command that printed this page's address still running?", { cause: error });
  }
  if (answer.status === 401 && used !== token) return ask(path, options);  // another was given meanwhile
  if (answer.status === 401) throw new TokenNeeded(await answer.text());
  if (!answer.ok) throw new Error(await answer.text());
  return answer;
}

// null where nothing has changed
export async function get(path) {
  const answer = await ask(path);
  return answer.status === 204 ? null : answer.json();
}

export async function getBytes(path, signal) { return (await ask(path, { signal })).arrayBuffer(); }

export async function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  return (await ask(path, { method: "POST", headers, body: JSON.stringify(body) })).json();
}

export const episodePath = (id) => `/api/episodes/${encodeURIComponent(id)}`;
