// Reload the page of an attempt when it gets its score.
export function mount(element) {
  const { attempt, state } = element.dataset;
  let pause = 1000;
  const look = async () => {
    try {
      const answer = await fetch(`/api/v1/attempts/${attempt}?fields=state`, { cache: "no-store" });
      if (answer.ok && (await answer.json()).attempt.state !== state) return location.reload();
    } catch {
      // The server may be restarting: retry.
    }
    pause = Math.min(pause * 1.5, 10_000);
    setTimeout(look, pause);
  };
  setTimeout(look, pause);
}
