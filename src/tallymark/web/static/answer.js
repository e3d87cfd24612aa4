// Form of an open attempt, sent by fetch so that text and files stay in the form if it fails.
export function mount(form) {
  const fields = [...form.querySelectorAll("textarea, #text")];
  const place = (field) => `answer ${form.dataset.attempt} ${field.name}`;
  for (const field of fields) {
    field.value ||= sessionStorage.getItem(place(field)) ?? "";
    field.addEventListener("input", () => sessionStorage.setItem(place(field), field.value));
  }
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = event.submitter;
    const large = [...form.querySelectorAll("[data-most]")].find(isTooLarge);
    if (large) {
      const [size, most] = [large.files[0].size, Number(large.dataset.most)].map((each) =>
        each.toLocaleString("en"),
      );
      say(
        form,
        `${large.files[0].name} has ${size} bytes, and at most ${most} are taken.`,
        "Nothing was sent.",
      );
      return;
    }
    const sent = new FormData(form, button); // before it is disabled, or it would not be in it
    button.setAttribute("aria-busy", "true");
    button.disabled = true;
    try {
      const answer = await fetch(form.action, { method: "POST", body: sent });
      if (answer.redirected) {
        fields.forEach((field) => sessionStorage.removeItem(place(field)));
        location.assign(answer.url);
        return;
      }
      show(form, answer.status, new DOMParser().parseFromString(await answer.text(), "text/html"));
    } catch {
      say(form, "The server could not be reached.", "Your answer is still here. Try again.");
    } finally {
      button.removeAttribute("aria-busy");
      button.disabled = false;
    }
  });
}

function isTooLarge(input) {
  return input.files[0]?.size > Number(input.dataset.most);
}

// The findings of the server, or the reason in an error page.
function show(form, status, page) {
  const found = page.querySelector("#findings");
  const target = form.querySelector("#findings");
  if (found) target.replaceChildren(...found.childNodes);
  else
    say(
      form,
      page.querySelector("main h1, h1")?.textContent ?? `The server said ${status}.`,
      page.querySelector("main p")?.textContent ?? "",
    );
  target.focus();
}

function say(form, words, more) {
  const notice = document.createElement("div");
  notice.className = "notice bad";
  notice.setAttribute("role", "alert");
  const said = notice.appendChild(document.createElement("span"));
  said.appendChild(document.createElement("b")).textContent = words;
  said.append(` ${more}`);
  form.querySelector("#findings").replaceChildren(notice);
}
