import type { UserPreferences, UserPreferencesInput } from '@belfry/sdk';
import type { Messages } from '../locales/en.ts';
import type { DetailsContext } from './context.ts';
import { h, run } from './dom.ts';

/** What newer servers add to the preferences. */
interface Extended {
  time_zone?: string | null;
  quiet_hours?: { from: string; to: string; days?: string[] } | null;
}
type Category = UserPreferences['categories'][number] & { description?: string; required?: boolean };

const DEFAULT_HOURS = { from: '22:00', to: '07:00' };

/** Shows which categories reach the user on which channels. Each change is saved at once. */
export class PreferencesView {
  readonly element = h('div', { class: 'view', part: 'preferences', tabindex: '-1' });
  readonly #context: DetailsContext;
  readonly #onSaved: () => void;
  #shown: UserPreferences | undefined;
  #hasFailed = false;

  constructor(context: DetailsContext, onSaved: () => void) {
    this.#context = context;
    this.#onSaved = onSaved;
    this.#load();
  }

  #load(): void {
    this.#hasFailed = false;
    this.#context.inbox.loadPreferences().catch(() => {
      this.#hasFailed = true;
      this.render();
    });
  }

  render(): void {
    const { preferences } = this.#context.inbox.getSnapshot();
    const { messages } = this.#context;
    if (preferences !== undefined && preferences === this.#shown) return;
    this.#shown = preferences;
    const active = (this.element.getRootNode() as ShadowRoot).activeElement as HTMLElement | null;
    const fresh = h(
      'div',
      {},
      ...(preferences === undefined
        ? [this.#hasFailed ? this.#failure() : h('p', { role: 'status' }, messages.loading)]
        : [
            h('p', {}, messages.preferencesHint),
            ...preferences.categories.map((category, index) => this.#category(category, index)),
            ...this.#hours(preferences as Extended),
          ]),
    );
    if (outline(fresh) !== outline(this.element)) {
      const hadFocus = this.element.contains(active);
      this.element.replaceChildren(...fresh.childNodes);
      const same = active?.id && this.element.querySelector<HTMLElement>(`#${CSS.escape(active.id)}`);
      if (hadFocus) (same || this.element).focus();
      return;
    }
    // A control that is replaced loses a click or a digit that is on its way.
    const controls = controlsIn(fresh);
    for (const [index, control] of controlsIn(this.element).entries()) {
      const { value, checked } = controls[index] as HTMLInputElement;
      // Only a time may be half typed.
      if (control !== active || control.type !== 'time') Object.assign(control, { value, checked });
    }
  }

  #failure(): HTMLElement {
    const { messages } = this.#context;
    const retry = () => {
      this.#load();
      this.render();
    };
    return h(
      'div',
      { class: 'failed', role: 'alert' },
      messages.preferencesFailed,
      h('button', { class: 'button', onclick: retry }, messages.retry),
    );
  }

  #category({ key, description, required = false, channels }: Category, index: number): HTMLElement {
    const { messages } = this.#context;
    const id = `category-${index}`;
    const name = this.#context.categories().get(key) ?? key;
    return h(
      'section',
      { class: 'group', role: 'group', 'aria-labelledby': id },
      h('h3', { id }, name),
      description !== undefined && h('p', {}, description),
      required && h('p', {}, messages.required),
      h(
        'div',
        { class: 'switches' },
        ...channels.map((channel) =>
          this.#switch(`${id}-${channel.name}`, messages[channel.name as keyof Messages] ?? channel.name, {
            checked: channel.enabled || required,
            disabled: required,
            onchange: (enabled) =>
              this.#save({ categories: [{ key, channels: [{ name: channel.name, enabled }] }] }),
          }),
        ),
      ),
    );
  }

  #switch(
    id: string,
    label: string,
    { checked, disabled, onchange }: { checked: boolean; disabled: boolean; onchange: (on: boolean) => void },
  ): HTMLElement {
    const input = h('input', {
      type: 'checkbox',
      role: 'switch',
      id,
      checked,
      disabled,
      onchange: () => onchange(input.checked),
    });
    return h('label', { class: 'switch' }, input, h('span', {}, label));
  }

  /** Quiet hours and time zone, if the server has them. */
  #hours({ quiet_hours: hours, time_zone }: Extended): Node[] {
    const { messages } = this.#context;
    if (hours === undefined) return [];
    const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
    const zone = time_zone ?? own;
    const save = (change: Extended) => this.#save(change as UserPreferencesInput);
    const problem = h('p', { role: 'alert' });
    const time = (id: 'from' | 'to') => {
      let isTyping = false;
      const saveTime = () => {
        const { preferences } = this.#context.inbox.getSnapshot();
        const now = { ...DEFAULT_HOURS, ...(preferences as Extended | undefined)?.quiet_hours };
        const timeIn = (name: 'from' | 'to') => {
          const value = this.element.querySelector<HTMLInputElement>(`#quiet-${name}`)?.value;
          return value === undefined || value === '' || value === shownTime(now[name]) ? now[name] : value;
        };
        const [from, to] = [timeIn('from'), timeIn('to')];
        problem.textContent = from === to ? messages.quietProblem : '';
        const isNew = from !== now.from || to !== now.to;
        if (isNew && from !== to) save({ quiet_hours: { ...now, from, to }, time_zone: zone });
      };
      const input = h('input', {
        type: 'time',
        id: `quiet-${id}`,
        class: 'field',
        required: true,
        value: hours && shownTime(hours[id]),
        // While the user types, each digit makes a time.
        onkeydown: ({ key }: KeyboardEvent) => {
          isTyping = key !== 'Enter';
          if (!isTyping) saveTime();
        },
        onchange: () => isTyping || saveTime(),
        onblur: () => {
          isTyping = false;
          saveTime();
        },
      });
      return h('label', {}, messages[id], input);
    };
    const zones = h('select', {
      id: 'time-zone',
      class: 'field',
      onchange: () => save({ time_zone: zones.value }),
    });
    for (const name of new Set([zone, own, ...Intl.supportedValuesOf('timeZone')]))
      zones.append(h('option', { value: name, selected: name === zone }, name.replaceAll('_', ' ')));
    return [
      h(
        'section',
        { class: 'group', role: 'group', 'aria-labelledby': 'quiet-title' },
        h('h3', { id: 'quiet-title' }, messages.quietHours),
        h('p', {}, messages.quietHoursHint),
        h(
          'div',
          { class: 'switches' },
          this.#switch('quiet-on', messages.quietHours, {
            checked: hours !== null,
            disabled: false,
            onchange: (on) =>
              save({ quiet_hours: on ? DEFAULT_HOURS : null, ...(on ? { time_zone: zone } : {}) }),
          }),
        ),
        h(
          'div',
          { class: 'times' },
          ...(hours === null ? [] : [time('from'), time('to')]),
          h('label', {}, messages.timeZone, zones),
        ),
        problem,
      ),
    ];
  }

  #save(change: UserPreferencesInput): void {
    run(this.#context.inbox.savePreferences(change).then(this.#onSaved));
  }
}

const controlsIn = (element: Element) => [...element.querySelectorAll<HTMLInputElement>('input, select')];
/** What differs if the form has other parts, and not only other values. */
const outline = (element: Element) => element.textContent + controlsIn(element).map(({ id }) => ` ${id}`);
/** The field knows no 24:00. */
const shownTime = (time: string) => time.replace(/^24/, '00');
