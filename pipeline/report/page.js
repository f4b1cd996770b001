(() => {
  'use strict';
  const open = () => {
    const name = decodeURIComponent(location.hash.slice(1));
    if (!name) return;
    let place = document.getElementById(name);
    if (!place) {
      /* the group is on another page, or the rebalance is so old that only the tables have it */
      const links = [...document.querySelectorAll('.index a')].map(a => a.getAttribute('href').split('#'));
      const groups = [...links, ...[...document.querySelectorAll('[id^=group-]')].map(e => ['', e.id])]
        .filter(([, to]) => to === name || name.startsWith(to.replace('group-', 'rebalance-') + '-'))
        .sort((a, b) => b[1].length - a[1].length || a[0].length - b[0].length);
      const back = document.querySelector('a.overview');
      if (groups.length && groups[0][0]) location.replace(groups[0][0] + '#' + name);
      else if (groups.length) place = document.getElementById(groups[0][1]);
      else if (back && /^(group|rebalance)-/.test(name)) location.replace(back.getAttribute('href') + '#' + name);
      if (!place) return;
    }
    for (let at = place.parentElement; at; at = at.parentElement) if (at.tagName === 'DETAILS') at.open = true;
    place.scrollIntoView();
  };
  addEventListener('hashchange', open);
  addEventListener('load', open);

  for (const table of document.querySelectorAll('table.sortable')) {
    const rows = [...table.tBodies[0].rows];
    const heads = [...table.tHead.rows[0].cells];
    const tools = table.parentElement.querySelector('.tools');
    const index = [...document.querySelectorAll('.index a')];
    const [field, choice, found] = [tools.querySelector('input'), tools.querySelector('select'),
      tools.querySelector('.found')];
    const value = (row, column) => {
      const cell = row.cells[column];
      const number = cell.hasAttribute('data-v') ? Number(cell.getAttribute('data-v')) : null;
      return number !== null ? number : cell.classList.contains('n') ? -1 : cell.textContent.trim().toLowerCase();
    };
    const sort = (column, way) => {
      const order = rows.slice();
      if (column >= 0) {
        order.sort((a, b) => {
          const [x, y] = [value(a, column), value(b, column)];
          return (x < y ? -1 : x > y ? 1 : 0) * (way === 'ascending' ? 1 : -1);
        });
      }
      heads.forEach((head, at) => at === column ? head.setAttribute('aria-sort', way) : head.removeAttribute('aria-sort'));
      table.tBodies[0].append(...order);
      choice.value = column + ' ' + way;
    };
    const ways = ['-1 ascending'];
    choice.append(new Option('the worst first', ways[0]));
    heads.forEach((head, at) => {
      const way = head.classList.contains('n') ? 'descending' : 'ascending';
      choice.append(new Option(head.textContent, at + ' ' + way));
      const button = document.createElement('button');
      button.type = 'button';
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener('click', () => {
        const was = head.getAttribute('aria-sort');
        sort(at, was === null ? way : was === 'ascending' ? 'descending' : 'ascending');
      });
    });
    choice.addEventListener('change', () => {
      const [column, way] = choice.value.split(' ');
      sort(Number(column), way);
    });
    field.addEventListener('input', () => {
      const asked = field.value.trim().toLowerCase();
      let count = 0;
      for (const row of rows) {
        row.hidden = !row.cells[0].textContent.toLowerCase().includes(asked);
        count += row.hidden ? 0 : 1;
      }
      const others = asked ? index.filter(a => a.getAttribute('href')[0] !== '#' &&
        a.textContent.toLowerCase().includes(asked)).slice(0, 20) : [];
      found.textContent = asked ? count + (count === 1 ? ' group' : ' groups') + ' here' : '';
      if (others.length) found.append(', on other pages: ');
      const first = document.querySelector('a.overview');
      if (asked && first) {
        const link = document.createElement('a');
        link.href = first.getAttribute('href') + '#groups';
        link.textContent = 'look among all';
        found.append(', ', link);
      }
      others.forEach((a, at) => found.append(at ? ', ' : '', a.cloneNode(true)));
    });
    tools.hidden = false;
  }

  const times = document.querySelector('.times');
  if (times) {
    const fields = [...times.querySelectorAll('input')];
    times.addEventListener('input', () => {
      const [from, until] = fields.map(field => field.value ? Date.parse(field.value + 'Z') : null);
      const rows = [...document.querySelectorAll('tr[data-f]')];
      for (const row of rows) {
        const [begin, end] = [Number(row.dataset.f), Number(row.dataset.u || row.dataset.f)];
        row.hidden = (from !== null && end < from) || (until !== null && begin > until);
      }
      const shown = rows.filter(row => !row.hidden).length;
      times.querySelector('.found').textContent = shown < rows.length ? shown + ' of ' + rows.length + ' rows' : '';
    });
    times.hidden = false;
  }
})();
