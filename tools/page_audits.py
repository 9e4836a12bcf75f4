"""Looks over a whole page from inside: JavaScript expressions that give the list of what is wrong, for page_test.py."""

_VISIBLE = """
  const visible = (node) => node.checkVisibility({opacityProperty: true, visibilityProperty: true}) &&
      !node.closest('.offscreen, [inert]');
"""

# Texts whose contrast with their ground is below WCAG AA: 4.5, or 3 for large text.
# Source: Web Content Accessibility Guidelines 2.2, 1.4.3 and the definitions of contrast ratio and relative luminance.
CONTRAST = """(() => {""" + _VISIBLE + """
  const canvas = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const ground = (node) => {
    for (; node; node = node.parentElement) {
      const color = rgba(getComputedStyle(node).backgroundColor);
      if (color[3] === 255) return color;
    }
    return [255, 255, 255, 255];
  };
  const wrong = [];
  const open = document.querySelector('dialog[open]') ?? document.body;
  for (const node of open.querySelectorAll('*')) {
    const own = [...node.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (!own || !visible(node) || node.closest(':disabled, noscript, svg, .skip')) continue;
    const style = getComputedStyle(node);
    const [a, b] = [luminance(rgba(style.color)), luminance(ground(node))].sort((x, y) => y - x);
    const size = parseFloat(style.fontSize);
    const need = size >= 24 || size >= 18.66 && style.fontWeight >= 700 ? 3 : 4.5;
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < need) wrong.push(`${ratio.toFixed(2)}: ${node.tagName} ${node.className} "${node.textContent.slice(0, 30)}"`);
  }
  return wrong;
})()"""

# What reaches beyond the right edge of the window, unless it scrolls by itself.
OVERFLOW = """(() => {""" + _VISIBLE + """
  const wrong = [...document.querySelectorAll('body *')].filter((node) => visible(node) &&
      node.getBoundingClientRect().right > innerWidth + 1 && !node.closest('pre, .table, .timeline-picture, #sidebar'));
  const out = wrong.map((node) => `${node.tagName}#${node.id}.${node.className}`);
  if (document.documentElement.scrollWidth > innerWidth) out.push('the page scrolls sideways');
  return out;
})()"""

# Controls that a screen reader could not name.
NAMELESS = """(() => {
  const named = (node) => node.getAttribute('aria-label') || node.labels?.length || node.textContent.trim() ||
      node.getAttribute('aria-labelledby') || node.title;
  return [...document.querySelectorAll('button, input, select, textarea, a, summary, dialog')]
      .filter((node) => !named(node)).map((node) => node.outerHTML.slice(0, 80));
})()"""
