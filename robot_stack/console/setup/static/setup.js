// The set-up page: what was found becomes choices, choices become the text of files, and only the last button writes.
import { TokenNeeded, get, getBytes, post, useToken } from "./api.js";
import { Box } from "./box.js";
import { guardPlaces } from "./buttons.js";
import { CameraCard } from "./cards.js";

const at = (id) => document.getElementById(id);
const PREVIEW_MS = 300;
const MOVED_TICKS = 40;
const HELD = { gamepad: "gamepad", keyboard: "keyboard", "pedal.match": "pedal", "keyboard.match": "keyboard beside it", match: "device" };

let found = null;
let cards = [];
let heard = { joints: {}, images: [], speaks: [], robot: "", commanded: {}, stands: {} };
let positions = {};  // port -> id -> ticks, when it was asked last
let timer = 0, turn = 0;
let boxChosen = false;  // by the operator: it is not laid anew
let standing = null;  // the chosen arm, where it was when somebody looked
let armChosen = false;  // by the operator: what is heard then changes nothing of it
const box = new Box(at("top"), at("side"), at("corners"), () => { boxChosen = true; changed(); });

function notice(text) {
  at("notice").textContent = text;
  at("notice").hidden = !text;
}

function fail(error) {
  if (error instanceof TokenNeeded) at("gate").hidden = false;
  else notice(error.message);
}

function options(select, entries, chosen) {
  const kept = chosen ?? select.value;
  select.replaceChildren(...entries.map(([value, text]) => new Option(text, value)));
  if (entries.some(([value]) => value === kept)) select.value = kept;
}

const arm = () => found.arms.find(({ file }) => file === at("robot").value);
const device = () => found.teleops.find(({ file }) => file === at("teleop").value);

function line(id, text) {
  const item = document.createElement("li");
  item.textContent = text;
  at(id).append(item);
}

// Arm ---------------------------------------------------------------------------------------------------------------
function layArms(chosen) {
  const speaks = new Set(heard.speaks);
  const mark = ({ file, on_port: onPort }) => speaks.has(file) ? " · its joints are published now" : onPort ? " · at a USB port, without ROS" : "";
  const order = [...found.arms].sort((one, other) => speaks.has(other.file) - speaks.has(one.file));
  options(at("robot"), order.map((each) => [each.file, each.file + mark(each)]), chosen);
}

async function listen() {
  at("listen").disabled = true;
  at("heard").textContent = "Listening for some seconds …";
  try {
    const domain = Number(at("domain").value);
    heard = await post("/api/ros", { domain });
    if (Number(at("domain").value) !== domain) heard.stands = {};  // another was chosen meanwhile: no place of an arm there
    const topics = Object.keys(heard.joints);
    const cameras = heard.images.length === 1 ? "one topic with images" : `${heard.images.length} topics with images`;
    const more = heard.left_out ? ` (${heard.left_out} more were not listened to)` : "";
    const described = heard.robot ? `; the robot is described as ${heard.robot}` : "";
    at("heard").textContent = topics.length
      ? `Joint states on ${topics.join(", ")}${described}; ${cameras}${more}. ${said()}`
      : `Nobody publishes joint states on domain ${at("domain").value}; ${cameras}${more}. Is the driver running there, in a shell with robot-stack env?`;
    layController();
    const named = heard.speaks.find((file) => file === heard.robot) || (heard.speaks.length === 1 ? heard.speaks[0] : undefined);
    const before = at("robot").value;
    layArms(armChosen ? undefined : named);
    layCameras();
    if (at("robot").value !== before) choseArm();
    else if (!box.home && home()) placeBox(boxChosen);  // its driver has told its kinematics now
    layStanding();
    changed();
  } catch (error) {
    at("heard").textContent = "";
    fail(error);
  }
  at("listen").disabled = false;
}

function said() {
  if (!heard.speaks.length) return "No robot file has these joints: write one, docs/adding.md.";
  if (heard.speaks.includes(heard.robot)) return `They are those of ${heard.robot}, which is chosen.`;
  if (heard.speaks.length === 1) return `They are those of ${heard.speaks[0]}.`;
  return `They are those of ${heard.speaks.join(", ")}: choose the one that stands here.`;
}

// Whether somebody listens where the chosen arm's file sends its commands.
function layController() {
  const { commands, on_port: onPort } = arm();
  const topics = Object.keys(heard.commanded);
  const waiting = commands.filter((topic) => topics.includes(topic));
  const others = topics.length ? ` Controllers listen on ${topics.join(", ")}.` : " No controller listens there.";
  at("controller").textContent = onPort || !commands.length || !Object.keys(heard.joints).length ? ""
    : waiting.length === commands.length ? `Its controller listens on ${waiting.join(", ")}.`
    : `Nobody listens on ${commands.filter((topic) => !waiting.includes(topic)).join(", ")}, where its file sends commands: start that controller, or correct the file.${others}`;
}

function choseArm() {
  const chosen = arm();
  layController();
  layPort("arm-port", chosen.on_port, "arm");
  box.poses.clear();
  placeBox(false);
  layPoses("");
  layStanding();
  const fits = found.tasks.find(({ feels_force: feels }) => feels === chosen.feels_force) || found.tasks[0];
  at("task").value = fits.run;
  at("safety").value = chosen.on_port && found.safety.includes("so101") ? "so101" : "table";
  if (chosen.on_port && found.teleops.some(({ file }) => file === "so101_leader")) at("teleop").value = "so101_leader";
  choseDevice();
}

// Serial ports ------------------------------------------------------------------------------------------------------
function layPort(id, wanted, whose) {
  const place = at(id);
  const kept = portOf(id);
  place.replaceChildren();
  if (!wanted) return;
  const port = Object.assign(document.createElement("select"), { id: `${id}-port` });
  const file = Object.assign(document.createElement("select"), { id: `${id}-file` });
  options(port, found.ports.map((each) => [each, each.split("/").pop()]));
  options(file, found.calibrations.map((each) => [each, each.split("/").slice(-2).join("/")]));
  const kind = whose === "arm" ? "/robots/" : "/teleoperators/";
  const first = found.calibrations.find((each) => each.includes(kind));
  if (first) file.value = first;
  if (whose !== "arm" && found.ports.length > 1) port.value = found.ports[1];
  if (kept && found.ports.includes(kept.port)) port.value = kept.port;
  if (kept && found.calibrations.includes(kept.calibration)) file.value = kept.calibration;
  for (const [select, text] of [[port, `Serial port of the ${whose}`], [file, `Calibration of the ${whose}`]]) {
    const row = document.createElement("p");
    const label = Object.assign(document.createElement("label"), { htmlFor: select.id, textContent: `${text} ` });
    row.append(label, select);
    select.addEventListener("change", () => { if (whose === "arm") forgetPoses(); changed(); });
    place.append(row);
  }
  const ask = Object.assign(document.createElement("button"), { type: "button", textContent: "which port is which?" });
  const answer = Object.assign(document.createElement("p"), { className: "soft" });
  answer.setAttribute("role", "status");
  answer.textContent = found.ports.length ? "Sends a question to every serial port above, and moves nothing; end what uses them, and unplug what is no arm." : "No serial port is plugged in: plug the arm in and look again.";
  ask.disabled = !found.ports.length;
  ask.addEventListener("click", () => askServos(answer));
  place.append(ask, answer);
}

async function askServos(answer) {
  const lines = [];
  let asked = false;
  for (const port of found.ports) {
    const name = port.split("/").pop();
    try {
      const { positions: now } = await post("/api/servos", { port });
      const before = positions[port];
      const count = Object.keys(now).length;
      const moved = before && Object.keys(now).some((id) => Math.abs(now[id] - before[id]) > MOVED_TICKS);
      lines.push(`${name}: ${count === 1 ? "one servo answers" : `${count} servos answer`}${moved ? ", and THIS ONE HAS MOVED" : ""}`);
      positions[port] = now;
      asked = asked || Boolean(before);
    } catch (error) {
      if (error instanceof TokenNeeded) { fail(error); return; }
      lines.push(`${name}: ${error.message}`);
    }
  }
  answer.textContent = `${lines.join(" · ")}${asked ? "" : " · now move one arm by hand and ask again"}`;
}

const portOf = (id) => at(`${id}-port`) ? { port: at(`${id}-port`).value, calibration: at(`${id}-file`).value } : null;

// Where the arm is --------------------------------------------------------------------------------------------------
const home = () => arm().home ?? heard.stands[arm().file]?.home ?? null;

function placeBox(keep) {
  const first = arm().home ? arm().first_box : heard.stands[arm().file]?.first_box ?? arm().first_box;
  box.place(keep ? [box.low, box.high] : first, home());
  boxChosen = keep;
  at("box-said").textContent = home()
    ? "Dashed is the arm at home. Draw the box in which the task is done; measure it later with calibrate workspace."
    : "This robot's file does not tell where its tool is at home: measure the box with calibrate workspace before anything moves.";
}

function layStanding() {
  const stands = arm().on_port ? null : heard.stands[arm().file];
  show(stands?.now ?? null, (stands?.moving ?? []).filter((joint) => arm().joints.includes(joint)));
}

// an arm that moves is drawn, but what it passes is no pose
function show(where, moving) {
  standing = moving.length ? null : where;
  box.now = where;
  at("stretch").disabled = !where;
  at("keep").disabled = !standing;
  const tool = where && where.line_m.at(-1).map((value) => value.toFixed(3)).join(", ");
  at("stands").textContent = !where ? "This page moves nothing: guide the arm by hand or with its pendant, let it stand, and look; as often as there are places."
    : moving.length ? `Its tool is at ${tool} m, and ${moving.join(", ")} moved while it was looked at: let it stand, and look again.`
    : `Its tool is at ${tool} m.`;
  box.draw();
}

async function look() {
  if (at("where").getAttribute("aria-disabled")) return;
  forgetWhere();  // where it was before is no pose that it stands in now
  at("stands").textContent = "Looking …";
  if (!arm().on_port) {
    await listen();
    const topic = heard.stands[arm().file]?.topic;
    if (!box.now) at("stands").textContent = topic
      ? `Where it stands is not known: its file expects its joints on ${topic}, where not all of them are heard, or nobody tells its kinematics.`
      : "Where it stands is not known: nobody publishes its joints on this domain.";
    return;
  }
  const chosen = portOf("arm-port");
  if (!chosen?.port || !chosen.calibration) {
    at("stands").textContent = "Its servos have no port or no calibration yet: choose both above.";
    return;
  }
  const asked = JSON.stringify([arm().file, chosen]);
  at("where").setAttribute("aria-disabled", "true");
  try {
    const { now, moving, refused } = await post("/api/servos", { ...chosen, robot: arm().file });
    if (JSON.stringify([arm().file, portOf("arm-port")]) !== asked) return;  // of another arm, or by another calibration
    show(now, moving);
    if (refused) at("stands").textContent = `That calibration is another arm's: ${refused}.`;
    else if (!now) at("stands").textContent = "Not all of its servos answer: look at power and cables, and at which port is which.";
  } catch (error) {
    fail(error);
  } finally {
    at("where").removeAttribute("aria-disabled");
  }
}

function forgetWhere() {
  for (const stands of Object.values(heard.stands)) stands.now = null;
  show(null, []);
}

// what was kept or seen of another arm, port, calibration or domain is none of this one's
function forgetPoses() {
  box.poses.clear();
  layPoses("");
  forgetWhere();
}

function keep() {
  const name = at("pose").value.trim();
  if (!/^[a-z][a-z0-9_]{0,63}$/.test(name)) {
    at("stands").textContent = `A pose cannot be called “${name}”: it is a-z, 0-9 and _, and begins with a letter.`;
    return;
  }
  if (box.poses.has(name)) {
    at("stands").textContent = `There is a pose “${name}” already: forget it first, or give this one another name.`;
    return;
  }
  const first = !box.poses.size;
  box.poses.set(name, standing);
  layPoses(first ? name : undefined);
  at("stands").textContent = `Kept as “${name}”.`;
  changed();
}

function layPoses(begin) {
  const forget = (name) => {
    box.poses.delete(name);
    layPoses();
    (at("poses").querySelector("button") || at("pose")).focus();
    at("stands").textContent = `The pose “${name}” is forgotten.`;
    changed();
  };
  at("poses").replaceChildren(...[...box.poses].map(([name, where]) => {
    const item = document.createElement("li");
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: "forget" });
    button.setAttribute("aria-label", `forget ${name}`);
    button.addEventListener("click", () => forget(name));
    item.append(`${name}: tool at ${where.line_m.at(-1).map((value) => value.toFixed(3)).join(", ")} m`, button);
    return item;
  }));
  options(at("begin"), [["", "where the arm is"], ...[...box.poses.keys()].map((name) => [name, `at ${name}`])], begin);
}

const told = (where) => ({ joints_rad: where.joints_rad, position_m: where.line_m.at(-1), quaternion_xyzw: where.quaternion_xyzw });

// Cameras -----------------------------------------------------------------------------------------------------------
function layCameras() {
  const before = new Map(cards.map((card) => [card.key, card]));
  const here = found.cameras.map((each) => ({ key: each.name, called: each.name, said: { model: each.model, serial: each.serial, device: each.device },
    take: async () => new Blob([await getBytes(`/api/picture?camera=${encodeURIComponent(each.name)}`)], { type: "image/jpeg" }) }));
  const topics = heard.images.map((each) => ({ key: each.topic, called: each.topic, problem: each.problem,
    said: { model: each.model, topic: each.topic }, jpeg: each.jpeg }));
  cards = [...here, ...topics].map((each) => {
    const card = before.get(each.key);
    return card && card.made === madeOf(each) ? card : new CameraCard(each, changed, fail, madeOf(each), card);
  });
  const fresh = cards.filter((card) => !before.has(card.key));
  fresh.forEach((card) => card.suggest(cards, { byName: true }));
  fresh.filter((card) => !card.use).forEach((card) => card.suggest(cards, { byName: false }));
  at("cameras").replaceChildren(...cards.map((card) => card.element));
  at("no-camera").hidden = cards.length > 0;
}

const madeOf = ({ said: parts, problem, jpeg }) => JSON.stringify([parts, problem || "", Boolean(jpeg)]);

// The hand ----------------------------------------------------------------------------------------------------------
function choseDevice() {
  const chosen = device();
  layPort("leader-port", chosen.on_port, "leader");
  const kept = Object.fromEntries([...document.querySelectorAll("#matched select")].map((each) => [each.id, each.value]));
  at("matched").replaceChildren();
  for (const keys of chosen.matched) {
    const key = keys.join(".");
    const row = document.createElement("p");
    const select = Object.assign(document.createElement("select"), { id: `match-${key}` });
    select.dataset.key = key;
    const what = key === "match" ? HELD[chosen.kind] || HELD.match : HELD[key];
    const fits = found.devices.filter(({ kind }) => key === "match" ? kind === chosen.kind : key === "pedal.match" ? kind !== "gamepad" && kind !== "spacemouse" : kind === "keyboard" || kind === "buttons");
    options(select, [["", "as the file has it"], ...fits.map((each) => [each.usb, `${each.name} (${each.usb})`])], fits.length === 1 && key === "match" ? fits[0].usb : "");
    if (fits.some(({ usb }) => usb === kept[select.id])) select.value = kept[select.id];
    select.addEventListener("change", changed);
    row.append(Object.assign(document.createElement("label"), { htmlFor: select.id, textContent: `Which ${what} ` }), select);
    at("matched").append(row);
  }
  changed();
}

// The files ---------------------------------------------------------------------------------------------------------
function plan() {
  const chosen = arm();
  const used = {};
  for (const card of cards) if (card.use) used[card.use] = card.planned();
  const matches = [...document.querySelectorAll("#matched select")].filter(({ value }) => value);
  return {
    name: at("name").value.trim(), example: at("task").value, robot: chosen.file, frame: chosen.base_frame,
    low: box.low, high: box.high, table: at("has-table").checked ? Number(at("table").value) : null, cameras: used,
    teleop: at("teleop").value, safety: at("safety").value, domain: Number(at("domain").value),
    arm_port: portOf("arm-port"), leader_port: portOf("leader-port"),
    poses: Object.fromEntries([...box.poses].map(([name, where]) => [name, told(where)])), start: at("begin").value || null,
    found: Object.fromEntries(matches.map((select) => [select.dataset.key, select.value])),
  };
}

function twice() {
  const uses = cards.map((card) => card.use).filter(Boolean);
  return uses.find((use, index) => uses.indexOf(use) !== index);
}

function changed() {
  if (!found) return;
  box.table = at("has-table").checked ? Number(at("table").value) : null;
  box.draw();
  at("write").disabled = true;
  clearTimeout(timer);
  timer = setTimeout(preview, PREVIEW_MS);
}

async function preview() {
  turn += 1;
  const mine = turn;
  const missing = [
    ...(at("name").value.trim() ? [] : ["The cell has no name yet: give it one, as in my_table."]),
    ...(cards.some((card) => card.use) ? [] : ["No camera is used yet: choose what one is used as."]),
    ...(twice() ? [`Two cameras are used as ${twice()}: give each its own.`] : []),
    ...(at("arm-port-port") && !found.ports.length ? ["The arm's serial port is not plugged in."] : []),
    ...(portOf("arm-port") && !found.calibrations.length ? ["There is no calibration file on this machine: run lerobot-calibrate first."] : []),
  ];
  let files = [], refused = missing;
  if (!missing.length) {
    try {
      ({ files, refused } = await post("/api/preview", plan()));
    } catch (error) {
      if (error instanceof TokenNeeded) fail(error);
      refused = error.message.split("\n");
    }
  }
  if (mine !== turn) return;  // something else was chosen meanwhile
  at("refused").replaceChildren();
  refused.forEach((text) => line("refused", text));
  at("fits").textContent = refused.length ? "" : "Everything fits: a run would take these files.";
  at("write").disabled = refused.length > 0;
  files.sort((one, other) => other.file.startsWith("cells/") - one.file.startsWith("cells/"));
  at("files").replaceChildren(...files.map(({ file, text }) => {
    const details = document.createElement("details");
    details.open = file.startsWith("cells/");
    const head = Object.assign(document.createElement("summary"), { textContent: `hardware_configs/${file}` });
    const body = Object.assign(document.createElement("pre"), { textContent: text, tabIndex: 0 });
    body.setAttribute("role", "region");
    body.setAttribute("aria-label", file);
    details.append(head, body);
    return details;
  }));
}

async function write() {
  at("write").disabled = true;
  try {
    const done = await post("/api/write", plan());
    done.written.forEach((path) => line("written", path));
    for (const command of done.next) {
      const item = document.createElement("li");
      item.append(Object.assign(document.createElement("code"), { textContent: command }));
      at("next").append(item);
    }
    at("parts").hidden = true;
    at("done").hidden = false;
    at("again").hidden = true;
    notice("");
    scrollTo(0, 0);
  } catch (error) {
    fail(error);
    preview();
  }
}

async function refresh() {
  try {
    const first = !found;
    found = await get("/api/found");
    at("gate").hidden = true;
    at("parts").hidden = false;
    notice("");
    layArms();
    layCameras();
    options(at("teleop"), found.teleops.map(({ file }) => [file, file]));
    options(at("task"), found.tasks.map(({ run, text }) => [run, text]));
    options(at("safety"), found.safety.map((name) => [name, name]));
    at("hidden").replaceChildren();
    found.hidden.forEach((text) => line("hidden", text));
    if (first) {
      const port = found.ports.length ? found.arms.find(({ on_port: onPort }) => onPort) : null;
      if (port) at("robot").value = port.file;
      choseArm();
    } else {
      layPort("arm-port", arm().on_port, "arm");
      choseDevice();
    }
  } catch (error) {
    fail(error);
  }
}

guardPlaces();
at("gate").addEventListener("submit", (event) => {
  event.preventDefault();
  useToken(at("token").value);
  refresh();
});
at("again").addEventListener("click", refresh);
at("where").addEventListener("click", look);
at("keep").addEventListener("click", keep);
at("stretch").addEventListener("click", () => { boxChosen = true; box.stretch(box.now.line_m.at(-1)); changed(); });
at("listen").addEventListener("click", listen);
at("robot").addEventListener("change", () => { armChosen = true; choseArm(); });
at("teleop").addEventListener("change", choseDevice);
at("write").addEventListener("click", write);
at("domain").addEventListener("input", () => { if (found && !arm().on_port) forgetPoses(); });
for (const id of ["name", "table", "domain"]) at(id).addEventListener("input", changed);
for (const id of ["task", "safety", "has-table", "begin"]) at(id).addEventListener("change", changed);
refresh();
