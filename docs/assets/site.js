// What the theme leaves without a name, or out of reach of the keyboard.
const label = () => {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  document.querySelectorAll(".md-typeset__scrollwrap").forEach((box) => { box.tabIndex = 0; });
  document.querySelectorAll(".md-code__nav").forEach((nav, index) => nav.setAttribute("aria-label", `Code block ${index + 1}`));
};
label();
new MutationObserver(label).observe(document.body, { childList: true, subtree: true });
