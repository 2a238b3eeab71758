import { filled } from '../locales/messages.ts';
import type { DetailsContext } from './context.ts';
import { h, iconButton } from './dom.ts';
import type { Selection } from './header.ts';

export interface Filters {
  elements: readonly HTMLElement[];
  render(selection: Selection, isPreferences: boolean): void;
}

export interface FilterOptions {
  /** The filters that the page sets, which the user cannot change. */
  fixed: Partial<Selection>;
  onSelect: (change: Partial<Selection>) => void;
}

/** The topic that the user has selected, and the choice of a category. */
export function createFilters(
  { messages, categories }: DetailsContext,
  { fixed, onSelect }: FilterOptions,
): Filters {
  const select = h('select', {
    class: 'filter',
    part: 'filter',
    'aria-label': messages.category,
    onchange: () => onSelect({ category: select.value || undefined }),
  });
  const topicName = h('span');
  const clear = iconButton('close', messages.clear, () => onSelect({ topic: undefined }));
  const chip = h('span', { class: 'chip' }, topicName, clear);

  return {
    elements: [chip, select],

    render({ category, topic }, isPreferences) {
      const choices = categories();
      chip.hidden = isPreferences || !topic || !!fixed.topic;
      topicName.title = topicName.textContent = filled(messages.topic, { topic: topic ?? '' });
      select.hidden = isPreferences || !!(topic || fixed.category) || choices.size < 2;
      const options = [['', messages.allCategories] as const, ...choices];
      if (select.options.length !== options.length)
        select.replaceChildren(...options.map(([value, label]) => h('option', { value }, label)));
      select.value = category ?? '';
    },
  };
}
