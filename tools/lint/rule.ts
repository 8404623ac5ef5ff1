/** oxlint's types for a rule, drawn out of its rule tester: the package exports no others. */
import type { RuleTester } from 'oxlint/plugins-dev';

type AnyRule = Parameters<RuleTester['run']>[1];
export type Rule = Exclude<AnyRule, { createOnce: unknown }>;
export type Context = Parameters<Rule['create']>[0];
type Visitor = ReturnType<Rule['create']>;

/** The syntax node that the visitor method of this name is called with. */
export type NodeOf<Kind extends keyof Visitor> = Parameters<NonNullable<Visitor[Kind]>>[0];
export type Node = NodeOf<'Identifier'>['parent'];
export type StringLiteral = NodeOf<'ImportDeclaration'>['source'];
