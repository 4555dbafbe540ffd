// The nodes of a cluster, where the page is a node's. What no node knows is not shown then.
import {PagedTable, age, byId, count, duration, plural, setText} from './text.js';

const SINGLE_ONLY = ['progress', 'fleet', 'decision-table', 'runs'];  // losses, devices and past runs

export class Nodes {
  constructor() {
    this.name = '';
    this.isNode = false;
    this.table = new PagedTable(byId('node-table'), 'Nodes of this cluster, by name', [
      {key: 'name', label: 'Node', head: true, cell: (n) => n.name === this.name ? `${n.name} (this one)` : n.name},
      {key: 'leads', label: 'Leads', cell: (n) => n.leads ? 'yes' : '\u2013'},
      {key: 'seen', label: 'Seen', number: true, cell: (n) => n.seen_ms === null ? 'never' : `${age(n.seen_ms)} ago`},
      {key: 'release', label: 'Release', cell: (n) => n.release || 'not told'},
      {key: 'open', label: 'Open version', number: true, cell: (n) => count(n.open_version)},
      {key: 'batches', label: 'Batches', number: true, cell: (n) => count(n.batch)},
      {key: 'epoch', label: 'Epoch', number: true, cell: (n) => count(n.epoch)},
    ]);
  }

  show({node, cluster}) {
    if (Boolean(node) !== this.isNode) this.change(Boolean(node));
    if (!node) return;
    this.name = node.name;
    setText(byId('nodes-line'), lineOf(cluster));
    byId('node-table').hidden = !cluster;
    if (cluster) this.table.show(cluster.nodes);
  }

  // Another server answers at this address: whoever has the sections may hide them by itself from now on.
  change(isNode) {
    this.isNode = isNode;
    byId('nodes').hidden = byId('nodes-link').hidden = !isNode;
    for (const id of SINGLE_ONLY) {
      byId(id).hidden = isNode;
      const link = document.querySelector(`#sections a[href="#${id}"]`);
      if (link) link.hidden = isNode;
    }
  }
}

function lineOf(cluster) {
  if (!cluster) return 'The engine has not said yet who the nodes are.';
  const {leader, lease_ms: lease, term, nodes} = cluster;
  const who = leader && lease > 0 ? `${leader} leads, in term ${count(term)}.`
      : cluster.trouble ? 'Nobody knows who leads now.' : 'No node leads.';
  const read = `The engine said this ${age(cluster.age_ms)} ago, within ${duration(cluster.took_ms)}.`;
  return [`${plural(nodes.length, 'node')} joined this run.`, who, read, cluster.trouble].filter(Boolean).join(' ');
}
