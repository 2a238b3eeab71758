import { HOST } from './styles/host.ts';
import { LIST } from './styles/list.ts';
import { PANEL } from './styles/panel.ts';

export const STYLES = HOST + PANEL + LIST;
