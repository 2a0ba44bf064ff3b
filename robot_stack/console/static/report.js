// The run's report, kept in this page: its link still works when the server is gone with the run.
let asked = false;

export async function keepReport(over, token) {
  if (!over || !over.report || asked) return;
  asked = true;
  const answer = await fetch("/report", { headers: { Authorization: `Bearer ${token}` } });
  if (!answer.ok) return;
  const link = document.getElementById("report");
  link.href = URL.createObjectURL(await answer.blob());
  link.hidden = false;
}
