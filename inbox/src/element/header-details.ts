import { filled } from '../locales/messages.ts';
import type { DetailsContext } from './context.ts';
import { h, iconButton } from './dom.ts';
import type { HeaderDetails, Selection } from './header.ts';

export interface HeaderDetailsOptions {
  /** The filters that the page sets, which the user cannot change. */
  fixed: Partial<Selection>;
  onSelect: (change: Partial<Selection>) => void;
  /** Called when the user wants all topics. */
  onClear: () => void;
  onBack: () => void;
}

/** What the header gets later: a way back from the preferences, the selected topic, a choice of category. */
export function createHeaderDetails(
  { messages, categories }: DetailsContext,
  { fixed, onSelect, onClear, onBack }: HeaderDetailsOptions,
): HeaderDetails {
  const back = iconButton('back', messages.back, onBack);
  const select = h('select', {
    class: 'filter',
    part: 'filter',
    'aria-label': messages.category,
    onchange: () => onSelect({ category: select.value || undefined }),
  });
  let shownLabels = '';
  const topicName = h('span');
  const clear = iconButton('close', messages.clear, onClear);
  const chip = h('span', { class: 'chip' }, topicName, clear);

  return {
    back,
    filters: [chip, select],

    render({ category, topic }, isPreferences) {
      const choices = categories();
      back.hidden = !isPreferences;
      chip.hidden = isPreferences || !topic || !!fixed.topic;
      topicName.title = topicName.textContent = filled(messages.topic, { topic: topic ?? '' });
      select.hidden = isPreferences || !!(topic || fixed.category) || choices.size < 2;
      const options = [['', messages.allCategories] as const, ...choices];
      const labels = JSON.stringify(options);
      if (labels !== shownLabels)
        select.replaceChildren(...options.map(([value, label]) => h('option', { value }, label)));
      shownLabels = labels;
      select.value = category ?? '';
    },

    focus: () => back.parentElement?.querySelector<HTMLElement>(':scope > button:not([hidden])')?.focus(),
  };
}
